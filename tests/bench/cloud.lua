-- The emulated cloud's store: keys, sizes and ETags of a folder of buckets from a table made beforehand (one line a key,
-- sorted bytewise: KEY TAB SIZE TAB TIME TAB ETAG), GETs by nginx itself, listings (both versions) from here. Signatures
-- are not looked at.
local keys, rows, etags = {}, {}, {}
local cloud = {keys = keys, rows = rows} -- for gcs.lua, which lists the same in Google's words
local PAGE = 1000

function cloud.load(path)
    for line in io.lines(path) do
        local key, size, time, etag = line:match("^([^\t]*)\t(%d+)\t([^\t]*)\t(.*)$")
        keys[#keys + 1] = key
        rows[#rows + 1] = "<LastModified>" .. time .. "</LastModified><ETag>&#34;" .. etag .. "&#34;</ETag><Size>" .. size
            .. "</Size><StorageClass>STANDARD</StorageClass>"
        etags["/" .. key] = '"' .. etag .. '"'
    end
end

local function refuse(status, code, message)
    ngx.status = status
    ngx.header["Content-Type"] = "application/xml"
    if ngx.req.get_method() ~= "HEAD" then
        ngx.print('<?xml version="1.0" encoding="UTF-8"?><Error><Code>', code, "</Code><Message>", message,
            "</Message></Error>")
    end
    return ngx.exit(ngx.HTTP_OK)
end

function cloud.wait(median_s, sigma)
    if median_s > 0 then
        local z = math.sqrt(-2 * math.log(1 - math.random())) * math.cos(2 * math.pi * math.random())
        ngx.sleep(median_s * math.exp(sigma * z))
    end
end

-- Before an object is sent: is it there, is it the one that was asked for, are there too many requests this second.
function cloud.object(most_a_second)
    local etag = etags[ngx.var.uri]
    if not etag then
        return refuse(404, "NoSuchKey", "The specified key does not exist.")
    end
    if most_a_second > 0 and ngx.shared.counts:incr(math.floor(ngx.now()), 1, 0, 5) > most_a_second then
        return refuse(503, "SlowDown", "Please reduce your request rate.")
    end
    local match = ngx.var.http_if_match
    if match then
        if match ~= "*" and match:gsub('"', "") ~= etag:gsub('"', "") then
            return refuse(412, "PreconditionFailed", "At least one of the pre-conditions you specified did not hold")
        end
        ngx.req.clear_header("If-Match") -- nginx knows no ETag of its own here
    end
end

function cloud.etag()
    ngx.header["ETag"] = etags[ngx.var.uri]
end

-- The first place whose key is greater than `text`.
local function after(text)
    local low, high = 1, #keys + 1
    while low < high do
        local middle = math.floor((low + high) / 2)
        if keys[middle] > text then high = middle else low = middle + 1 end
    end
    return low
end
cloud.after = after

local function plain(text)
    return (text:gsub("[&<>]", {["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;"}))
end

local function escape(text)
    return (text:gsub("[^%w%-_%.~/]", function(one) return string.format("%%%02X", one:byte()) end))
end

function cloud.list()
    local args = ngx.req.get_uri_args(20)
    local method, bucket = ngx.req.get_method(), ngx.var.uri:match("^/([^/]*)")
    if method == "HEAD" or args.location ~= nil or bucket == "" then
        ngx.header["Content-Type"] = "application/xml"
        return method == "HEAD" or ngx.print('<?xml version="1.0" encoding="UTF-8"?><LocationConstraint/>')
    end
    local text = args["encoding-type"] == "url" and escape or plain
    local function word(name)
        local value = args[name]
        return type(value) == "string" and value or ""
    end
    local two = args["list-type"] == "2"
    local prefix, delimiter, most = word("prefix"), word("delimiter"), math.min(tonumber(word("max-keys")) or PAGE, PAGE)
    local token = word("continuation-token")
    local from = two and (token ~= "" and token or word("start-after")) or word("marker")
    local base = bucket .. "/"
    local at = from == "" and after(base .. prefix) or after(base .. from)
    if from == "" and keys[at - 1] == base .. prefix then at = at - 1 end
    if from < prefix and from ~= "" then at = math.max(at, after(base .. prefix)) end
    if delimiter ~= "" and from:sub(-1) == delimiter and from > prefix then at = after(base .. from .. "\255") end
    local out, count, last = {}, 0, ""
    while count < most and keys[at] and keys[at]:sub(1, #base + #prefix) == base .. prefix do
        local key = keys[at]:sub(#base + 1)
        local cut = delimiter ~= "" and key:find(delimiter, #prefix + 1, true)
        if cut then
            last = key:sub(1, cut)
            out[#out + 1] = "<CommonPrefixes><Prefix>" .. text(last) .. "</Prefix></CommonPrefixes>"
            at = after(base .. last .. "\255")
        else
            last = key
            out[#out + 1] = "<Contents><Key>" .. text(key) .. "</Key>" .. rows[at] .. "</Contents>"
            at = at + 1
        end
        count = count + 1
    end
    local more = keys[at] and keys[at]:sub(1, #base + #prefix) == base .. prefix
    ngx.header["Content-Type"] = "application/xml"
    ngx.print('<?xml version="1.0" encoding="UTF-8"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>',
        bucket, "</Name><Prefix>", text(prefix), "</Prefix><Delimiter>", text(delimiter), "</Delimiter><MaxKeys>", most,
        "</MaxKeys>", args["encoding-type"] == "url" and "<EncodingType>url</EncodingType>" or "", "<KeyCount>", count,
        "</KeyCount><IsTruncated>", more and "true" or "false", "</IsTruncated>",
        more and (two and "<NextContinuationToken>" .. plain(last) .. "</NextContinuationToken>"
            or "<NextMarker>" .. text(last) .. "</NextMarker>") or "", out, "</ListBucketResult>")
end

return cloud
