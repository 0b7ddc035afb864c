-- Google's JSON listing over the keys that cloud.lua has: prefix, startOffset (inclusive), endOffset (exclusive), maxResults,
-- pageToken. A page has 5,000 names where the client asks for so many, which is the most that Dataflux does.
local cloud = require "cloud"
local gcs = {}
local PAGE, MOST = 1000, 5000
local items = {} -- by place, made when it is first asked for: making them would be most of a page

local function quoted(text)
    return '"' .. text:gsub('[%c"\\]', function(one) return string.format("\\u%04x", one:byte()) end) .. '"'
end

local function item(bucket, key, row)
    local time, etag, size = row:match("<LastModified>(.-)</LastModified><ETag>&#34;(.-)&#34;</ETag><Size>(%d+)")
    local name = quoted(key)
    return table.concat({'{"kind":"storage#object","name":', name, ',"bucket":"', bucket, '","generation":"1","metageneration":"1",',
        '"contentType":"application/octet-stream","storageClass":"STANDARD","size":"', size, '","etag":"', etag,
        '","timeCreated":"', time, '","updated":"', time, '"}'})
end

function gcs.list()
    local args, bucket = ngx.req.get_uri_args(20), ngx.var.uri:match("^/storage/v1/b/([^/]+)/o$")
    local function word(name)
        local value = args[name]
        return type(value) == "string" and value or ""
    end
    ngx.header["Content-Type"] = "application/json"
    if not bucket then
        ngx.status = 404
        return ngx.print('{"error":{"code":404,"message":"Not Found"}}')
    end
    local base, prefix, last = bucket .. "/", word("prefix"), word("endOffset")
    local from = word("pageToken") ~= "" and word("pageToken") or word("startOffset")
    local most = math.min(tonumber(word("maxResults")) or PAGE, MOST)
    local at = cloud.after(base .. (from > prefix and from or prefix))
    if cloud.keys[at - 1] == base .. (from > prefix and from or prefix) then at = at - 1 end
    local function inside(key)
        return key and key:sub(1, #base + #prefix) == base .. prefix and (last == "" or key < base .. last)
    end
    local out = {}
    while #out < most and inside(cloud.keys[at]) do
        items[at] = items[at] or item(bucket, cloud.keys[at]:sub(#base + 1), cloud.rows[at])
        out[#out + 1] = items[at]
        at = at + 1
    end
    local more = inside(cloud.keys[at]) and ',"nextPageToken":' .. quoted(cloud.keys[at]:sub(#base + 1)) or ""
    ngx.print('{"kind":"storage#objects","items":[', table.concat(out, ","), "]", more, "}")
end

return gcs
