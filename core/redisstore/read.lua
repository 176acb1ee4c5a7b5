-- Reading a counter of any state: with reservations pending, a clock that was set
-- back, slots that have left. It adds to f, as wait.lua and write.lua do: the table
-- that rare() in lua.go makes of these three files the first time one of them is
-- wanted. Most calls want none, and Redis makes the functions of a script anew each
-- time it runs, at some 0.2 µs each.

local match = string.match

local function text(n) return format('%.0f', n) end

-- whole reads a number that must be there.
local function whole(s)
  local n = tonumber(s)
  if not n or n % 1 ~= 0 or n < 0 or n > BEHIND then error('SLIDEGATE a field of the slots is no number') end
  return n
end

-- readState takes over the state, and returns the newest entry.
local function readState(c, state)
  local pending, offset, seen = match(state, '^s:(%d+):(%d+):(%d+)$')
  if not pending then error('SLIDEGATE the state of the log is none') end
  c.state, c.pending = state, pending + 0
  c.offset = math.max(c.offset, offset + 0)
  c.seen = math.max(c.seen, seen + 0)
  return call('ZREVRANGEBYSCORE', c.log, '4000000000000000', '-inf', 'WITHSCORES', 'LIMIT', '0', '1')
end

-- readNewest finds the state and the newest entry.
local function readNewest(c)
  local newest = call('ZRANGE', c.log, '-1', '-1', 'WITHSCORES')
  if newest[2] == 'inf' then newest = readState(c, newest[1]) end
  if not newest[1] then return end
  c.newest, c.at = newest[1], newest[2] + 0
  if c.at > PENDING then
    -- Reservations without their state, or a clock that once read a time after 2096:
    -- nothing that can be counted.
    call('UNLINK', c.log)
    c.newest, c.at = nil, 0
    return
  end
  c.seen = math.max(c.seen, c.at)
end

-- readSums finds what all slots hold together.
local function readSums(c)
  local h = call('HMGET', c.slots, 'a', 't', 'o', 'f')
  if not h[1] then
    if h[2] or h[3] then error('SLIDEGATE the slots are not whole') end
    return
  end
  if not h[2] or not h[3] then error('SLIDEGATE the slots are not whole') end
  c.made, c.sum, c.first, c.behind = whole(h[1]), whole(h[2]), whole(h[3]), h[4]
  c.offset = math.max(c.offset, whole(h[4] or 0))
  c.seen = math.max(c.seen, c.made)
end

-- range returns what the slots from first to last hold, false where nothing.
function f.range(c, first, last)
  local fields = {}
  for s = first, last do fields[#fields + 1] = text(s) end
  return call('HMGET', c.slots, unpack(fields)), fields
end

-- occupied lists the slots from edge on that hold something, in order, as pairs of
-- slot and units; the fields of earlier ones are added to drop. It costs as much as
-- there are such slots, where range costs as much as there are numbers.
function f.occupied(c, edge, drop)
  local all, list = call('HGETALL', c.slots), {}
  for i = 1, #all, 2 do
    local slot = tonumber(all[i])
    if slot and slot >= edge then
      list[#list + 1] = {slot, whole(all[i + 1])}
    elseif slot and drop then
      drop[#drop + 1] = all[i]
    end
  end
  table.sort(list, function(a, b) return a[1] < b[1] end)
  return list
end

-- dropAll does what dropSlots does where slots lie far apart.
local function dropAll(c, edge)
  local list, sum = f.occupied(c, edge, c.drop), 0
  for _, s in ipairs(list) do sum = sum + s[2] end
  if #list > 0 then c.first = list[1][1] end
  c.sum = sum
end

-- dropSlots takes the slots in front of edge out of the sum, and finds the first
-- of the others that holds something.
local function dropSlots(c, edge)
  c.drop = {}
  if edge - c.first > TOUCH then return dropAll(c, edge) end
  local held, fields = f.range(c, c.first, edge - 1)
  for i, units in ipairs(held) do
    if units then
      c.sum = c.sum - whole(units)
      c.drop[#c.drop + 1] = fields[i]
    end
  end
  if c.sum < 0 then error('SLIDEGATE the slots do not add up') end
  if c.sum == 0 then return end
  local last = math.min(edge + TOUCH - 1, c.here)
  for i, units in ipairs((f.range(c, edge, last))) do
    if units then
      c.first = edge + i - 1
      return
    end
  end
  if last == c.here then error('SLIDEGATE the slots do not add up') end
  c.drop = {}
  dropAll(c, edge)
end

-- units returns those of a reservation.
local function units(member)
  local n = match(member, ':(%d+)$')
  if not n then error('SLIDEGATE a reservation is none') end
  return n + 0
end

-- weigh sums reservations by rank.
local function weigh(log, from, to)
  local sum = 0
  for first = from, to, TOUCH do
    for _, m in ipairs(call('ZRANGE', log, first, math.min(first + TOUCH - 1, to))) do
      sum = sum + units(m)
    end
  end
  return sum
end

-- sumPending sums the reservations that have not lapsed. Where many have lapsed
-- since the counter was last written, the smaller side is summed: those that
-- have, or those that have not. The oldest is never the call's own.
local function sumPending(c, own)
  if c.pending == 0 then return end
  local now = text(PENDING + c.now)
  c.lapsed = call('ZRANGEBYSCORE', c.log, '(4000000000000000', now, 'LIMIT', '0', '64')
  for _, m in ipairs(c.lapsed) do c.freed = c.freed + units(m) end
  local next = call('ZRANGEBYSCORE', c.log, '(' .. now, '9000000000000000', 'WITHSCORES', 'LIMIT', '0', '2')
  if not next[1] then return end
  c.waiting = c.pending - c.freed
  if #c.lapsed == TOUCH then
    local first = call('ZCOUNT', c.log, '-inf', '4000000000000000')
    local middle = call('ZCOUNT', c.log, '-inf', now)
    local last = call('ZCARD', c.log) - 2 -- in front of the state
    if middle - first <= last - middle then
      c.waiting = c.pending - weigh(c.log, first, middle - 1)
    else
      c.waiting = weigh(c.log, middle, last)
    end
  end
  c.used = c.used + c.waiting
  local lapses = next[2]
  if next[1] == own then lapses = next[4] end
  if lapses and (c.oldest == 0 or lapses - PENDING < c.oldest) then
    c.oldest, c.front = lapses - PENDING, 0
  end
end

-- sumLog sums the live entries of the log.
local function sumLog(c)
  if c.at <= c.now - c.window then return end
  local live = call('ZRANGEBYSCORE', c.log, format('(%.0f', c.now - c.window), '4000000000000000', 'WITHSCORES', 'LIMIT', '0', '1')
  c.total, c.last = parse(c.newest)
  c.live, c.left = live[1], live[2] + c.window
  local base, units = parse(c.live)
  c.units, c.logged = units, (c.total - base + units) % WRAP
  c.used, c.oldest, c.front = c.logged, c.left, units
end

-- sumSlots sums the live slots.
local function sumSlots(c)
  c.here = floor(c.now / c.size)
  c.held = whole(call('HGET', c.slots, text(c.here)) or 0)
  if c.sum == 0 then return end
  local edge = c.here - c.count
  if floor(c.made / c.size) < edge then
    c.made, c.sum = -1, 0
  elseif c.first < edge then
    dropSlots(c, edge)
  end
  if c.sum == 0 then return end
  c.used = c.used + c.sum
  local left = (c.first + 1 + c.count) * c.size
  if c.oldest == 0 or left < c.oldest then
    c.oldest, c.front = left, false
  end
end

-- read makes a counter of the arguments from i on and the keys from k on, and
-- returns the indices behind them. own is the reservation that the call ends, if it does,
-- and told an instant that somebody was told by an instance. Its fields are those of decide.lua,
-- and further:
--
--   offset seen moved   what the clock is behind the counter's own time, the latest
--                       instant that counted, and whether this call changed offset
--   left units logged   of the log: when the oldest leaves and how many with it,
--                       and the units of all live entries
--   state pending       of the log: the state, and the units that it says are pending
--   waiting lapsed freed
--                       the units that really are, and reservations that have lapsed,
--                       TOUCH at most, with their units
--   behind drop         of the slots: the field "f", and fields that have left
function f.read(i, k, own, told)
  local c = {
    special = true, window = ARGV[i + 1] + 0, n = ARGV[i + 2] + 0, used = 0, oldest = 0, front = 0, over = 0,
    exact = 0, slotted = 0, at = 0, made = 0, sum = 0, first = 0, offset = 0, seen = 0,
    pending = 0, waiting = 0, freed = 0, logged = 0, log = KEYS[k],
  }
  local algorithm = ARGV[i]
  if algorithm == 'e' then
    i, k = i + 3, k + 1
  else
    c.slots, c.log, c.size, c.count = KEYS[k], KEYS[k + 1], ARGV[i + 3] + 0, ARGV[i + 4] + 0
    if algorithm == 'h' then c.hot = ARGV[i + 5] + 0 end
    i, k = i + 6, k + 2
    readSums(c)
  end
  if algorithm ~= 's' or c.made == 0 or c.behind then readNewest(c) end
  c.now = CLOCK + c.offset
  -- Less is no step of the clock: an instance's clock has its own rate.
  if told and told > c.now + 1000 then c.seen = math.max(c.seen, told) end
  if c.now < c.seen then
    c.offset, c.now, c.moved = c.offset + c.seen - c.now, c.seen, true
  end
  sumLog(c)
  if c.slots then sumSlots(c) end
  sumPending(c, own)
  return c, i, k
end
