-- floodgate's gate inside nginx. One worker follows the feed (schemas/FEED.md) and writes who is closed into a shared
-- dictionary. Each request looks its callers up there and waits for nothing. floodgate-lua.conf shows how it is used.
--
-- It needs ngx_http_lua with lua-resty-core, and lua-cjson. What decides takes the time as an argument: now is Unix time in
-- seconds, mono the seconds of a clock that nobody sets.
--
-- The dictionary has a value for each closed caller, under KIND:ID: a header, and for each decision a record with its rule's
-- name. Other keys have no colon: follower (the number of the newest), generation (the number of the newest feed that did not
-- resume), oldest (the oldest generation whose records count), heard (when the last line came), partitions (their states), torn
-- (see Follower:write), and the numbers of the status.
--
-- Chosen input: clients choose ids. The dictionary is a red-black tree, so a look-up takes the logarithm of what it holds at
-- worst. An id has at most 256 bytes; a longer one costs a hash. A feed's line has at most 128 KiB.

local ffi = require "ffi"
local cjson = require("cjson.safe").new()
cjson.decode_invalid_numbers(false)

local byte, find, format, gsub, sub = string.byte, string.find, string.format, string.gsub, string.sub
local ceil, concat, huge, max, min = math.ceil, table.concat, math.huge, math.max, math.min

ffi.cdef [[
typedef struct { double filed; uint32_t follower, unused; } floodgate_header;
typedef struct {
  double from1, until1, from2, until2, limit, window;
  uint32_t generation, partition, rule_bytes, shadow;
} floodgate_record;
typedef struct { long seconds, nanoseconds; } floodgate_time;
int clock_gettime(int clock, floodgate_time *t);
int inet_pton(int family, const char *text, void *address);
unsigned char *SHA256(const unsigned char *text, size_t bytes, unsigned char *sum);
]]
local C, chars = ffi.C, ffi.typeof "const char *"
local HEADER, RECORD = ffi.sizeof "floodgate_header", ffi.sizeof "floodgate_record"
local LONGEST_LINE = 128 * 1024
local STALE_AFTER = 3 -- seconds

local instant = ffi.new "floodgate_time"
local function monotonic()
  C.clock_gettime(ffi.os == "Linux" and 1 or ffi.os == "BSD" and 4 or 6, instant)
  return tonumber(instant.seconds) + tonumber(instant.nanoseconds) / 1e9
end

-- Ids, as schemas/FRAME.md says ---------------------------------------------------------------------------------------------------

local octets, sum = ffi.new "uint8_t[16]", ffi.new "uint8_t[32]"

local function hash(text)
  C.SHA256(text, #text, sum)
  return "~" .. gsub(ffi.string(sum, 16), ".", function(c) return format("%02x", byte(c)) end)
end

local DIGITS = ("[0-9a-f]"):rep(32)
local HASH, ENDS_IN_HASH, KEYED = "^~" .. DIGITS .. "$", "~" .. DIGITS .. "$", "^hmac:" .. DIGITS

-- part returns a part of a composite id that another part follows.
local function part(text)
  if find(text, "|", 1, true) or find(text, HASH) then return hash(text) end
  return text
end

-- counted returns the form in which an id is counted.
local function counted(id)
  if #id > 256 or #id == 255 and find(id, ENDS_IN_HASH) or find(id, KEYED) then return sub(id, 1, 222) .. hash(id) end
  return id
end

-- address returns the id of an address as nginx writes it: of IPv6 the first bits. It returns nil for what is no address.
local function address(text, prefix)
  if not find(text, ":", 1, true) then return text end
  local o, group = octets, {}
  if C.inet_pton(ffi.os == "Linux" and 10 or ffi.os == "BSD" and 28 or 30, text, o) ~= 1 then return nil end
  local zeros, best, longest, run = 0, 9, 1, 0
  for i = 1, 8 do
    local n = o[2 * i - 2] * 256 + o[2 * i - 1]
    if n == 0 and zeros == i - 1 then zeros = i end
    if i == 6 and zeros == 5 and n == 0xffff then return format("%d.%d.%d.%d", o[12], o[13], o[14], o[15]) end
    n = n - n % 2 ^ min(16, max(0, 16 * i - prefix))
    run = n == 0 and run + 1 or 0
    if run > longest then best, longest = i - run + 1, run end -- of equal runs of zeros, RFC 5952 takes the first
    group[i] = format("%x", n)
  end
  if best == 9 then return concat(group, ":") end
  return concat(group, ":", 1, best - 1) .. "::" .. concat(group, ":", best + longest, 8)
end

-- caller returns a function that returns a request's key in the dictionary, or nil. A field is "client" or the name of a
-- variable.
local function caller(kind, fields, prefix)
  local before, n = kind .. ":", #fields
  local function field(var, name)
    if name == "client" then return address(var.remote_addr, prefix) end
    return var[name]
  end
  if n == 1 then
    local name, plain = fields[1], fields[1] == "client"
    return function(var)
      local id = field(var, name)
      if not id or id == "" then return nil end
      return before .. (plain and id or counted(id))
    end
  end
  return function(var)
    local parts = {}
    for i = 1, n do
      local p = field(var, fields[i])
      if not p or p == "" then return nil end
      parts[i] = i < n and part(p) or p
    end
    return before .. counted(concat(parts, "|"))
  end
end

-- The gate: what each worker reads ------------------------------------------------------------------------------------------------

local Gate = {}
Gate.__index = Gate

-- policy is hold, open or closed.
local function new_gate(dict, policy)
  return setmetatable({ dict = dict, policy = policy, record = ffi.new "floodgate_record" }, Gate)
end

-- stale reports whether decisions of a partition are stale, or of any if partition is nil. Those of cold partitions are not.
function Gate:stale(partition, mono)
  local states = self.dict:get "partitions" or ""
  if partition then states = sub(states, partition + 1, partition + 1) end
  return find(states, "s", 1, true) ~= nil
    or find(states, "f", 1, true) ~= nil and mono - (self.dict:get "heard" or mono) > STALE_AFTER
end

-- each calls f(place, end) for each record of a value: r has the record, and the rule's name stands from place + 1 to the end.
local function each(value, r, f)
  local at, text = HEADER, ffi.cast(chars, value)
  while at < #value do
    ffi.copy(r, text + at, RECORD)
    local place = at + RECORD
    at = place + r.rule_bytes
    f(place, at)
  end
end

-- judge adds to a verdict what the value of a caller says: closed, shadow, and of the closure that ends last its end (last),
-- rule, limit and window. Records of generations before oldest do not count. A closure that follows without a gap counts as part
-- of the one before.
function Gate:judge(v, value, oldest, now, mono)
  local r, own = self.record, { closed = false, shadow = false, last = 0 }
  local ignores = self.policy == "open"
  local function counts() return r.generation >= oldest and not (ignores and self:stale(r.partition, mono)) end
  each(value, r, function(place, behind)
    local last = r.from1 <= now and now < r.until1 and r.until1 or r.from2 <= now and now < r.until2 and r.until2
    if not last or not counts() then return end
    local closes = r.shadow == 0
    if closes and not own.closed or closes == own.closed and last > own.last then
      own.last, own.rule, own.limit, own.window = last, sub(value, place + 1, behind), r.limit, r.window
    end
    own.closed, own.shadow = own.closed or closes, own.shadow or not closes
  end)
  local last = own.closed and own.last or nil
  while last do
    local before = last
    each(value, r, function()
      if r.shadow == 1 or not counts() then return end
      if r.from1 <= last and last < r.until1 then last = r.until1 end
      if r.from2 <= last and last < r.until2 then last = r.until2 end
    end)
    own.last = last
    if last == before then break end
  end
  if own.closed and not v.closed or own.closed == v.closed and own.last > v.last then
    v.last, v.rule, v.limit, v.window = own.last, own.rule, own.limit, own.window
  end
  v.closed, v.shadow = v.closed or own.closed, v.shadow or own.shadow
end

-- check returns the verdict about the callers with these keys, or nil if they pass and no decision in mode shadow is in force.
function Gate:check(keys, n, now, mono)
  local v
  for i = 1, n do
    if self.dict:get(keys[i]) then
      -- A new feed writes its records first, and then oldest. So oldest is read first, and then the value.
      local oldest = self.dict:get "oldest" or 0
      v = v or { closed = false, shadow = false, last = 0 }
      self:judge(v, self.dict:get(keys[i]) or "", oldest, now, mono)
    end
  end
  if n > 0 and self.policy == "closed" and not (v and v.closed) and self:stale(nil, mono) then
    return { closed = true, stale = true, last = now + 1 }
  end
  return v and (v.closed or v.shadow) and v or nil
end

-- whole returns seconds rounded up, at least 1. The last bits of a double make no second of their own.
local function whole(seconds) return format("%d", max(1, ceil(seconds - 1e-6))) end

-- fields returns Retry-After, RateLimit and RateLimit-Policy of a refused request. The last two may be nil.
local function fields(v, now)
  local seconds = whole(v.last - now)
  if not v.rule or v.rule == "" or find(v.rule, "[^ -~]") then return seconds end
  local name = '"' .. gsub(v.rule, '[\\"]', "\\%0") .. '"'
  local policy
  if v.limit > 0 and v.limit <= 999999999999999 and v.window > 0 then
    policy = format("%s;q=%d;w=%s", name, v.limit, whole(v.window))
  end
  return seconds, name .. ";r=0;t=" .. seconds, policy
end

-- The follower: one worker writes -------------------------------------------------------------------------------------------------

local Follower = {}
Follower.__index = Follower

-- pause is called between pieces of work, and may yield. later(f, ...) calls f(...) when the lines that are there have been read.
local function new_follower(dict, pause, later)
  local f = {
    dict = dict, pause = pause, later = later, number = dict:incr("follower", 1, 0), record = ffi.new "floodgate_record",
    header = ffi.new "floodgate_header", started = false, seconds = {}, filed = {}, complete = dict:get "oldest" == nil,
    heard = 0, held = 0, dropped = 0, bad = 0,
  }
  for _, name in ipairs { "oldest", "generation", "heard", "held", "dropped", "bad", "connected" } do dict:safe_add(name, 0) end
  f.dropped, f.bad = dict:get "dropped", dict:get "bad" -- what followers before this one counted
  return setmetatable(f, Follower)
end

-- Callers are filed by the second in which the first of their decisions ends, or by an earlier one: self.filed has a list of
-- keys for each second, and self.seconds is a heap of these seconds.
function Follower:file(key, second)
  local keys = self.filed[second]
  if keys then keys[#keys + 1] = key return end
  self.filed[second] = { key }
  local heap, i = self.seconds, #self.seconds + 1
  while i > 1 and heap[(i - i % 2) / 2] > second do
    heap[i] = heap[(i - i % 2) / 2]
    i = (i - i % 2) / 2
  end
  heap[i] = second
end

-- pop takes the caller that is filed under the earliest second, if that is not after the given one. It returns its key and value.
function Follower:pop(until_second)
  local heap = self.seconds
  while heap[1] and heap[1] <= until_second do
    local second, keys = heap[1], self.filed[heap[1]]
    local key = keys[#keys]
    keys[#keys] = nil
    if not keys[1] then
      self.filed[second] = nil
      local last, n, i = heap[#heap], #heap - 1, 1
      heap[#heap] = nil
      while 2 * i <= n do
        local child = 2 * i
        if child < n and heap[child + 1] < heap[child] then child = child + 1 end
        if heap[child] >= last then break end
        heap[i], i = heap[child], child
      end
      if n > 0 then heap[i] = last end
    end
    local value = self.dict:get(key)
    if value and self:owns(value) == second then return key, value end
  end
end

-- owns returns the second under which this follower has filed a value; nil if another follower wrote it.
function Follower:owns(value)
  ffi.copy(self.header, value, HEADER)
  if self.header.follower == self.number then return self.header.filed end
end

-- records splits a value into its records, and returns them and when the first of them ends. It leaves out those for which keep,
-- which may be nil, returns false.
function Follower:records(value, keep)
  local list, first, r = {}, huge, self.record
  each(value, r, function(place, behind)
    local last = max(r.until1, r.until2)
    if keep and not keep(r, last, sub(value, place + 1, behind)) then return end
    list[#list + 1] = sub(value, place - RECORD + 1, behind)
    first = min(first, last)
  end)
  return list, first
end

-- write writes the records of a caller, of which the first ends at first. second is where the caller is filed, if it is. If the
-- dictionary is full, the decisions that end first are dropped, and counted. before is how many of the caller's records were
-- counted as held. No lock is held from the read of a value to its write. So a follower that was replaced meanwhile may write over
-- what the new one has written. It says so in torn.
function Follower:write(key, list, first, second, before)
  self:put(key, list, first, second, before)
  if self:replaced() then self.dict:set("torn", 1) end
end

function Follower:put(key, list, first, second, before)
  self.held = self.held + #list - before
  if not list[1] then return self.dict:delete(key) end
  if not second or second > ceil(first) then
    second = ceil(first)
    self:file(key, second)
  end
  self.header.filed, self.header.follower = second, self.number
  local value = ffi.string(self.header, HEADER) .. concat(list)
  for _ = 1, 64 do
    local ok, err = self.dict:safe_set(key, value)
    if ok then return end
    if err ~= "no memory" then error(err) end
    if not self:evict(first) then break end
  end
  self.held, self.dropped = self.held - #list, self.dropped + #list
end

-- evict removes the decision that ends first, and reports whether it did: not if that would end after the given time.
function Follower:evict(before)
  if not self.complete then self:adopt(function() end) end
  while true do
    local key, value = self:pop(ceil(before))
    if not key then return false end
    local second = self:owns(value)
    local all, first = self:records(value)
    if ceil(first) > second then
      self:write(key, all, first, nil, #all) -- its end has moved since it was filed: the value keeps its size
    elseif first >= before then
      self:file(key, second)
      return false
    else
      local rest, after = self:records(value, function(_, last) return last > first end)
      self.dropped = self.dropped + #all - #rest
      self:write(key, rest, after, nil, #all)
      return true
    end
  end
end

-- expire removes the decisions that are over.
function Follower:expire(now)
  while true do
    local key, value = self:pop(now)
    if not key then return end
    local before = self:records(value)
    local list, first = self:records(value, function(_, last) return last > now end)
    self:write(key, list, first, nil, #before)
    self.pause()
  end
end

-- adopt files all that is in the dictionary and removes the records that do not count any more. The list of keys is made at once, which
-- takes 1 ms for 10,000.
function Follower:adopt(pause)
  self.complete = true
  local oldest, r = self.dict:get "oldest", self.record
  for _, key in ipairs(self.dict:get_keys(0)) do
    if self:replaced() then return end
    local value = find(key, ":", 1, true) and self.dict:get(key)
    if value then
      local second, all, left = self:owns(value), 0, 0
      each(value, r, function()
        all = all + 1
        if r.generation >= oldest then left = left + 1 end
      end)
      if not second or left < all then
        local list, first = self:records(value, function() return r.generation >= oldest end)
        self:write(key, list, first, second, second and all or 0)
      end
    end
    pause()
  end
end

-- number returns a number from 0 up to a bound; 0 if there is none, and nil if it is something else.
local function number(n, bound)
  if n == nil then return 0 end
  return type(n) == "number" and n >= 0 and n < bound and n or nil
end

-- span returns the i-th span of a decision, 0 and 0 if it has none, and nil if it is none.
local function span(spans, i)
  local s = spans[i]
  if s == nil then return 0, 0 end
  local from, last = type(s) == "table" and number(s.from, 2 ^ 36), type(s) == "table" and number(s["until"], 2 ^ 36)
  if from and last and from < last then return from, last end
end

-- decide applies a decision, and returns true if it is none.
function Follower:decide(d, now)
  local r, spans, rule, id = self.record, d.spans or {}, d.rule or "", d.id
  if d.id_base64 then id = type(d.id_base64) == "string" and ngx.decode_base64(d.id_base64) end
  if type(d.kind) ~= "string" or not find(d.kind, "^[a-z0-9_-]+$") then return true end
  if type(id) ~= "string" or id == "" or #id > 256 or type(rule) ~= "string" then return true end
  if d.mode ~= "enforce" and d.mode ~= "shadow" then return true end
  if type(spans) ~= "table" or next(spans) and not spans[1] or spans[3] then return true end
  local limit, window, partition = number(d.limit, huge), number(d.window, huge), number(d.partition, 2 ^ 31)
  if not limit or not window or not partition then return true end
  local from1, until1 = span(spans, 1)
  local from2, until2 = span(spans, 2)
  if not from1 or not from2 then return true end
  local key, list, first = d.kind .. ":" .. id, {}, huge
  local value, second, before = self.dict:get(key), nil, 0
  if value then
    second = self:owns(value)
    if second then before = #self:records(value) end
    list, first = self:records(value, function(_, last, name) return name ~= rule and last > now end)
  end
  local last = max(until1, until2)
  if last > now then
    r.from1, r.until1, r.from2, r.until2, r.shadow = from1, until1, from2, until2, d.mode == "shadow" and 1 or 0
    r.limit, r.window, r.partition = limit, window, partition
    r.generation, r.rule_bytes = self.generation, #rule
    list[#list + 1] = ffi.string(r, RECORD) .. rule
    first = min(first, last)
  end
  if value or list[1] then self:write(key, list, first, second, before) end
end

function Follower:start(l)
  self.started, self.resumed = l.version == 1, l.resumed == true
  if not self.started then return "got version " .. tostring(l.version) .. ", want 1" end
  if not self.resumed then self.generation, self.cursor = self.dict:incr("generation", 1, 0), nil end
  if not self.generation then return "got a feed that resumes, want one that begins" end
  self.dict:set("connected", 1)
end

function Follower:current()
  if self.resumed then return end
  local others = not self.complete or self.dict:get "oldest" ~= 0
  self.dict:set("oldest", self.generation) -- from here on, what this feed has not told counts no more
  if others then self.later(self.adopt, self, self.pause) end
end

function Follower:heartbeat(l, now)
  local states = {}
  for i, p in ipairs(type(l.partitions) == "table" and l.partitions or {}) do
    states[i] = type(p) == "table" and ({ cold = "c", stale = "s" })[p.state] or "f"
  end
  states = concat(states)
  if states ~= self.states and self.dict:safe_set("partitions", states) then self.states = states end
  self:tick(now)
end

-- torn returns an error if a follower that was replaced has written beside this one: then all must come again.
function Follower:torn()
  if not self.dict:get "torn" then return end
  self.dict:delete "torn"
  self.cursor = nil
  return "another worker has written meanwhile"
end

-- tick does each second what needs no line.
function Follower:tick(now)
  self:expire(now)
  self.dict:set("held", self.held)
  self.dict:set("dropped", self.dropped)
  self.dict:set("bad", self.bad)
end

-- replaced reports whether another worker follows: after a reload, or a crash.
function Follower:replaced() return self.dict:get "follower" ~= self.number end

-- line applies a line of the feed. What it cannot read it counts. It returns an error if the lines behind it must not be read.
function Follower:line(text, now, mono)
  if self:replaced() then return "another worker follows" end
  local l = cjson.decode(text)
  if type(l) ~= "table" or not self.started and l.type ~= "start" then return self:count() end
  if mono - self.heard > 0.1 then
    self.heard = mono
    self.dict:set("heard", mono)
  end
  if l.type == "start" then
    return self:start(l)
  elseif l.type == "decision" then
    if self:decide(l, now) then return self:count() end
  elseif l.type == "current" then
    self:current()
  elseif l.type == "heartbeat" then
    self:heartbeat(l, now)
  end
  if type(l.cursor) == "string" then self.cursor = l.cursor end
  if l.type == "heartbeat" then return self:torn() end
end

function Follower:count() self.bad = self.bad + 1 end

-- nginx ---------------------------------------------------------------------------------------------------------------------------

local M = { Gate = new_gate, Follower = new_follower, fields = fields, address = address, counted = counted, caller = caller }
local gate, keys, options, follower

-- configure belongs into init_by_lua_block. It takes a table:
--   feed         unix:PATH or HOST:PORT, where HOST is an address
--   key          for a feed at HOST:PORT: the key that it wants
--   callers      by kind, a list of what makes the id: "client", which is $remote_addr, or the name of a variable of nginx
--   stale        hold (the default), open or closed: what holds while decisions are stale
--   ipv6_prefix  bits of an IPv6 address that are one client, 64 by default
--   dict         name of the lua_shared_dict, floodgate by default
function M.configure(o)
  local dict = ngx.shared[o.dict or "floodgate"]
  if not dict then error("floodgate: got no lua_shared_dict " .. (o.dict or "floodgate")) end
  if type(o.feed) ~= "string" or not (find(o.feed, "^unix:/") or find(o.feed, "^[^:]+:%d+$") or find(o.feed, "^%[.+%]:%d+$")) then
    error("floodgate: got feed " .. tostring(o.feed) .. ", want unix:PATH or HOST:PORT")
  end
  if not ({ hold = 1, open = 1, closed = 1 })[o.stale or "hold"] then
    error("floodgate: got stale " .. tostring(o.stale) .. ", want hold, open or closed")
  end
  options, keys, o.kinds = o, {}, {}
  for kind, list in pairs(o.callers or {}) do
    if not find(kind, "^[a-z0-9_-]+$") or #kind > 32 or type(list) ~= "table" or not list[1] then
      error("floodgate: got caller " .. tostring(kind) .. ", want a kind and a list of fields")
    end
    keys[#keys + 1], o.kinds[#keys + 1] = caller(kind, list, o.ipv6_prefix or 64), kind
  end
  if not keys[1] then error "floodgate: got no callers, want at least one" end
  gate = new_gate(dict, o.stale or "hold")
end

local found = {} -- keys of the request that is looked up; no look-up yields

local function look_up()
  local var, n = ngx.var, 0
  for i = 1, #keys do
    local key = keys[i](var)
    if key then
      n = n + 1
      found[n] = key
    end
  end
  local now = ngx.now()
  local v = gate:check(found, n, now, gate.policy ~= "hold" and monotonic() or 0)
  if not v then return false end
  local before = var.floodgate or ""
  if before ~= "" and sub(before, 1, 6) ~= "shadow" then return false end -- refused already: this is the page that error_page gives
  var.floodgate = v.stale and "stale" or (v.closed and "closed " or "shadow ") .. v.rule
  if not v.closed then return false end
  local header = ngx.header
  header["Retry-After"], header["RateLimit"], header["RateLimit-Policy"] = fields(v, now)
  return true
end

-- access belongs into access_by_lua_block. It refuses the request, or returns. It never fails: a request that cannot be looked
-- up passes.
function M.access()
  local ok, refused = pcall(look_up)
  if not ok then return ngx.log(ngx.ERR, "floodgate: ", refused) end
  if refused then return ngx.exit(429) end
end

-- status belongs into content_by_lua_block of a location that strangers cannot reach.
function M.status()
  local d, mono = gate.dict, monotonic()
  ngx.header["Content-Type"] = "application/json"
  ngx.say(format('{"connected":%s,"heard_seconds":%s,"stale":%s,"held":%d,"dropped":%d,"bad":%d,"free_bytes":%d}',
    tostring(d:get "connected" == 1), d:get "oldest" and d:get "heard" > 0 and format("%.1f", mono - d:get "heard") or "null",
    tostring(gate:stale(nil, mono)), d:get "held" or 0, d:get "dropped" or 0, d:get "bad" or 0, d:free_space()))
end

local function connect()
  local sock = ngx.socket.tcp()
  sock:settimeouts(1000, 1000, 1000)
  local host, port = options.feed:match "^([^/]+):(%d+)$"
  local ok, err
  if host then ok, err = sock:connect(host, tonumber(port)) else ok, err = sock:connect(options.feed) end
  if not ok then return nil, err end
  local query = {}
  for i, kind in ipairs(options.kinds) do query[i] = "kind=" .. kind end
  if follower.cursor then query[#query + 1] = "since=" .. ngx.escape_uri(follower.cursor) end
  local request = "GET /v1/closed?" .. concat(query, "&") .. " HTTP/1.0\r\nHost: floodgate\r\n"
  if options.key then request = request .. "Authorization: Bearer " .. options.key .. "\r\n" end
  ok, err = sock:send(request .. "\r\n")
  if not ok then return nil, err end
  return sock
end

-- body returns what stands behind the head of an answer; nil while the head has not come, or if it is that of no feed: with an
-- error.
local function body(answer)
  local _, e = find(answer, "\r\n\r\n", 1, true)
  if not e then return nil, #answer > 16384 and "got no HTTP" or nil end
  if not find(answer, "^HTTP/1%.[01] 200 ") then return nil, "got " .. sub(answer, 1, 200):match "^[^\r\n]*" end
  return sub(answer, e + 1)
end

-- read applies the whole lines of a text, and returns what stands behind them, and perhaps an error.
local function read(text)
  local at, mono = 1, monotonic()
  while true do
    local e = find(text, "\n", at, true)
    if not e then break end
    local err = follower:line(sub(text, at, e - 1), ngx.now(), mono)
    if err then return "", err end
    at = e + 1
    follower.pause()
  end
  text = sub(text, at)
  return text, #text > LONGEST_LINE and "got a line of more than 128 KiB" or nil
end

-- follow reads one answer to its end, and returns why it ended.
local function follow()
  local sock, err = connect()
  if not sock then return err end
  follower.started = false
  local answer, lines, heard = "", nil, monotonic()
  repeat
    local chunk, why = sock:receiveany(65536)
    if chunk then
      heard = monotonic()
      if lines then lines = lines .. chunk else
        answer = answer .. chunk
        lines, err = body(answer)
      end
      if lines then lines, err = read(lines) end
    elseif why ~= "timeout" or monotonic() - heard > STALE_AFTER then
      err = why
    end
  until err or ngx.worker.exiting()
  sock:close()
  return err
end

-- run follows, and comes back at once, or after a second if it has connected less than a second ago.
local function run(premature)
  local began = monotonic()
  if premature or ngx.worker.exiting() then return end
  local _, err = pcall(follow)
  if ngx.worker.exiting() or follower:replaced() then return end
  gate.dict:set("connected", 0)
  follower:tick(ngx.now())
  if err ~= follower.said then
    follower.said = err
    ngx.log(ngx.WARN, "floodgate: feed ", options.feed, ": ", err)
  end
  ngx.timer.at(monotonic() - began > 1 and 0 or 1, run)
end

-- start belongs into init_worker_by_lua_block. The first worker follows; nginx replaces a worker that has crashed.
function M.start()
  if ngx.worker.id() ~= 0 then return end
  local pieces, since = 0, monotonic()
  local function pause() -- lets the requests of this worker come first
    pieces = pieces + 1
    if pieces % 32 ~= 0 or monotonic() - since < 0.005 then return end
    ngx.sleep(0.001)
    since = monotonic()
  end
  follower = new_follower(gate.dict, pause, function(f, ...)
    ngx.timer.at(0, function(_, ...) f(...) end, ...)
  end)
  ngx.timer.at(0, run)
end

return M
