"""A very small S3 client: SigV4-signed PUT, GET, DELETE and bucket creation, to fill servers and to check them."""
import concurrent.futures
import datetime
import hashlib
import hmac
import http.client
import os
import urllib.parse

from . import proc

REGION = "us-east-1"
SAFE = "/-_.~"


def sign(method, host, path, query, body, access, secret, extra=None):
    """The headers of a signed request; `path` is already encoded, `query` a list of pairs."""
    now = datetime.datetime.now(datetime.timezone.utc)
    stamp, day = now.strftime("%Y%m%dT%H%M%SZ"), now.strftime("%Y%m%d")
    payload = hashlib.sha256(body).hexdigest()
    headers = {"host": host, "x-amz-content-sha256": payload, "x-amz-date": stamp}
    headers.update({name.lower(): value for name, value in (extra or {}).items()})
    names = sorted(headers)
    canonical_query = "&".join("%s=%s" % (urllib.parse.quote(k, "-_.~"), urllib.parse.quote(v, "-_.~"))
                               for k, v in sorted(query))
    canonical = "\n".join([method, path, canonical_query, "".join("%s:%s\n" % (n, headers[n]) for n in names),
                           ";".join(names), payload])
    scope = "%s/%s/s3/aws4_request" % (day, REGION)
    text = "\n".join(["AWS4-HMAC-SHA256", stamp, scope, hashlib.sha256(canonical.encode()).hexdigest()])
    key = ("AWS4" + secret).encode()
    for part in (day, REGION, "s3", "aws4_request"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    signature = hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
    headers["authorization"] = "AWS4-HMAC-SHA256 Credential=%s/%s, SignedHeaders=%s, Signature=%s" % (
        access, scope, ";".join(names), signature)
    return headers, canonical_query


class Client:
    """One keep-alive connection; not for several threads."""

    def __init__(self, port, access, secret):
        self.host = "127.0.0.1:%d" % port
        self.access, self.secret = access, secret
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)

    def request(self, method, bucket, key="", query=(), body=b"", extra=None):
        path = "/" + urllib.parse.quote(bucket) + ("/" + urllib.parse.quote(key, SAFE) if key else "")
        headers, text = sign(method, self.host, path, list(query), body, self.access, self.secret, extra)
        target = path + ("?" + text if text else "")
        for attempt in range(4):  # a server that has only just started may close or answer 500
            try:
                self.connection.request(method, target, body=body, headers=headers)
                answer = self.connection.getresponse()
                data = answer.read()
                if answer.status < 500 or attempt == 3:
                    return answer.status, dict(answer.getheaders()), data
            except (OSError, http.client.HTTPException):
                self.connection.close()
                if attempt == 3:
                    raise

    def put(self, bucket, key, body):
        status, _, data = self.request("PUT", bucket, key, body=body)
        proc.expect(status == 200, "PUT %s/%s answered %d: %r" % (bucket, key, status, data[:300]))


def upload(folder, bucket, port, access, secret, threads=8):
    """Puts every file of folder/bucket into the server's bucket, creating it when it is not there."""
    root = os.path.join(folder, bucket)
    first = Client(port, access, secret)
    status, _, data = first.request("PUT", bucket)
    proc.expect(status in (200, 409), "creating %s answered %d: %r" % (bucket, status, data[:300]))
    names = [os.path.relpath(os.path.join(here, name), root) for here, _, files in os.walk(root) for name in files]

    def put_some(some):
        client = Client(port, access, secret)
        for name in some:
            with open(os.path.join(root, name), "rb") as file:
                client.put(bucket, name, file.read())
    with concurrent.futures.ThreadPoolExecutor(threads) as pool:
        for done in [pool.submit(put_some, names[start::threads]) for start in range(threads)]:
            done.result()
