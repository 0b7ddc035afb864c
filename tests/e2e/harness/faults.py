"""Servers that misbehave on purpose: an HTTP proxy with a fault for each request, and an S3 server made of a dict for
names that no file system takes."""
import base64
import hashlib
import http.client
import http.server
import socketserver
import threading
import time
import urllib.parse
import xml.sax.saxutils

from . import proc


class Quiet(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    request_queue_size = 1024

    def handle_error(self, request, address):
        """A client that goes away is no news here."""


class Base(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *what):
        pass

    def do_GET(self):
        self.server.owner.answer(self)

    do_HEAD = do_PUT = do_POST = do_GET

    def reply(self, status, headers, body, gate=None):
        self.send_response_only(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if gate:
            gate.wait()
        if self.command != "HEAD":
            self.wfile.write(body)


class Local(proc.Served):
    """A server in a thread of this process."""

    def __init__(self):
        self.http = Quiet(("127.0.0.1", 0), Base)
        self.http.owner = self
        self.port = self.http.server_address[1]
        self.lock = threading.Lock()
        self.thread = threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self.thread.start()

    def stop(self):
        self.http.shutdown()
        self.http.server_close()


class FaultProxy(Local):
    """Before `upstream`; fault(path, nth) is asked for every GET of an object, nth counting that path's from 1, and
    gives None, ("truncate", BYTES), ("flip", OFFSET), ("stall", SECONDS) or ("status", CODE, BODY)."""

    def __init__(self, upstream, fault):
        self.upstream, self.fault = upstream, fault
        self.seen = {}
        super().__init__()

    def answer(self, handler):
        path, _, query = handler.path.partition("?")
        fault = None
        if "list-type=" not in query:
            with self.lock:
                self.seen[path] = nth = self.seen.get(path, 0) + 1
            fault = self.fault(urllib.parse.unquote(path), nth)
        if fault and fault[0] == "stall":
            time.sleep(fault[1])
        if fault and fault[0] == "status":
            handler.reply(fault[1], [("Content-Type", "application/xml")], fault[2])
            return
        connection = http.client.HTTPConnection("127.0.0.1", self.upstream.port, timeout=30)
        connection.putrequest(handler.command, handler.path, skip_host=True, skip_accept_encoding=True)
        for name, value in handler.headers.items():
            if name.lower() != "connection":
                connection.putheader(name, value)
        connection.endheaders()
        response = connection.getresponse()
        body = response.read()
        connection.close()
        headers = [(name, value) for name, value in response.getheaders()
                   if name.lower() not in ("content-length", "connection", "transfer-encoding")]
        if fault and fault[0] == "truncate" and response.status in (200, 206):
            handler.send_response_only(response.status)
            for name, value in headers + [("Content-Length", str(len(body)))]:
                handler.send_header(name, value)
            handler.end_headers()
            handler.wfile.write(body[:fault[1]])
            handler.close_connection = True
            return
        if fault and fault[0] == "flip" and body:
            at = fault[1] % len(body)
            body = body[:at] + bytes([body[at] ^ 0xFF]) + body[at + 1:]
        handler.reply(response.status, headers, body)


class DictStore(Local):
    """ListObjectsV2 and GET over {key: bytes} of one bucket; signatures are not looked at. `page` keys at a time;
    etag(key, body) may replace the MD5; requests counts methods and keys. Ranges' bodies wait for `body_gate`, a
    threading.Event, behind their headers."""

    def __init__(self, objects, bucket="bkt", page=1000, etag=None):
        self.objects, self.bucket, self.page = objects, bucket, page
        self.etag = etag or (lambda key, body: hashlib.md5(body).hexdigest())
        self.requests = []
        self.body_gate = None
        super().__init__()

    def answer(self, handler):
        path, _, query = handler.path.partition("?")
        pairs = dict(urllib.parse.parse_qsl(query, keep_blank_values=True))
        bucket, _, key = path[1:].partition("/")
        with self.lock:
            self.requests.append((handler.command, path, query))
        key = urllib.parse.unquote(key)
        if bucket != self.bucket:
            self.error(handler, 404, "NoSuchBucket")
        elif "list-type" in pairs and not key:
            self.list(handler, pairs)
        elif key not in self.objects:
            self.error(handler, 404, "NoSuchKey")
        else:
            self.get(handler, key)

    @staticmethod
    def error(handler, status, code):
        handler.reply(status, [("Content-Type", "application/xml")],
                      ("<Error><Code>%s</Code><Message>no</Message></Error>" % code).encode())

    def get(self, handler, key):
        body = self.objects[key]
        tag = '"%s"' % self.etag(key, body)
        headers = [("ETag", tag), ("Last-Modified", "Sat, 21 Nov 2026 10:00:00 GMT")]
        wanted = handler.headers.get("If-Match")
        if wanted and wanted.strip('"') != tag.strip('"'):
            self.error(handler, 412, "PreconditionFailed")
            return
        span = handler.headers.get("Range")
        if not span:
            handler.reply(200, headers, body)
            return
        first, _, last = span.partition("=")[2].partition("-")
        start, end = int(first), min(int(last or len(body) - 1), len(body) - 1)
        if start >= len(body):
            self.error(handler, 416, "InvalidRange")
            return
        handler.reply(206, headers + [("Content-Range", "bytes %d-%d/%d" % (start, end, len(body)))],
                      body[start:end + 1], self.body_gate)

    def list(self, handler, pairs):
        encode = pairs.get("encoding-type") == "url"

        def text(value):
            return urllib.parse.quote(value, "/-_.~") if encode else xml.sax.saxutils.escape(value)
        after = pairs.get("start-after", "")
        if "continuation-token" in pairs:
            after = base64.urlsafe_b64decode(pairs["continuation-token"]).decode()
        limit = min(int(pairs.get("max-keys") or 1000), self.page)
        prefix, delimiter = pairs.get("prefix", ""), pairs.get("delimiter", "")
        found, groups, last, more = [], [], "", False
        for key in sorted(self.objects, key=lambda k: k.encode("utf-8", "surrogateescape")):
            if key.encode() <= after.encode() or not key.startswith(prefix):
                continue
            group = prefix + key[len(prefix):].split(delimiter)[0] + delimiter \
                if delimiter and delimiter in key[len(prefix):] else ""
            if group and (group in groups or after.startswith(group)):
                last = key
                continue
            if len(found) + len(groups) == limit:
                more = True
                break
            (groups if group else found).append(group or key)
            last = key
        out = ['<?xml version="1.0" encoding="UTF-8"?>'
               '<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>%s</Name><Prefix>%s</Prefix>'
               "<KeyCount>%d</KeyCount><MaxKeys>%d</MaxKeys><IsTruncated>%s</IsTruncated>" % (
                   self.bucket, text(prefix), len(found) + len(groups), limit, "true" if more else "false")]
        if encode:
            out.append("<EncodingType>url</EncodingType>")
        if more:
            out.append("<NextContinuationToken>%s</NextContinuationToken>"
                       % base64.urlsafe_b64encode(last.encode()).decode())
        for key in found:
            body = self.objects[key]
            out.append("<Contents><Key>%s</Key><LastModified>2026-11-21T10:00:00.000Z</LastModified>"
                       "<ETag>&quot;%s&quot;</ETag><Size>%d</Size><StorageClass>STANDARD</StorageClass></Contents>"
                       % (text(key), self.etag(key, body), len(body)))
        out += ["<CommonPrefixes><Prefix>%s</Prefix></CommonPrefixes>" % text(group) for group in groups]
        out.append("</ListBucketResult>")
        handler.reply(200, [("Content-Type", "application/xml")], "".join(out).encode())
