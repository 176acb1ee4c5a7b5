-- Changing a counter that was read by read.lua. See there for f.

-- count adds units to what the counter holds.
function f.count(c, units)
  local left = c.now + c.window
  c.used = c.used + units
  if not c.slots or c.hot and c.used > c.hot then
    c.exact = c.exact + units
  else
    c.slotted = c.slotted + units
    left = (c.here + 1 + c.count) * c.size
  end
  if c.oldest == 0 or left < c.oldest then c.oldest = left end
end

-- begin counts a reservation that is to be ended by a later call, or lapses a window
-- after now, and a lease as long after that as it lasts.
function f.begin(c, id, cost, lasts)
  local left = c.now + c.window + (lasts or 0)
  c.used, c.reserved, c.begun, c.lapses = c.used + cost, cost, id .. ':' .. text(cost), left
  if c.oldest == 0 or left < c.oldest then c.oldest, c.front = left, 0 end
end

-- ending says that the call ends the reservation.
function f.ending(c, member, reserved)
  c.used, c.ended, c.endedUnits = c.used - reserved, c.ended or {}, (c.endedUnits or 0) + reserved
  c.ended[#c.ended + 1] = member
end

-- writeState writes the state anew, or removes it.
local function writeState(c, pending, seen, newest)
  local needed = pending > 0
  if not c.slots then
    needed = needed or c.offset > 0 or seen > newest
  elseif c.hot then
    needed = needed or c.offset > 0 and newest > 0
  end
  local state = needed and format('s:%.0f:%.0f:%.0f', pending, c.offset, seen)
  if state == (c.state or false) then return end
  if state then call('ZADD', c.log, '+inf', state) end
  if c.state then call('ZREM', c.log, c.state) end
end

-- addLog counts units in the log.
local function addLog(c)
  if c.live then
    append(c.log, c.window, text(c.now), c.now, c.exact, c.n, c.live, c.newest, c.at, c.total, c.last)
    return
  end
  local total = c.exact
  if c.newest and c.state then
    local dead = call('ZCOUNT', c.log, '-inf', text(c.at))
    total = (parse(c.newest) + total) % WRAP
    call('ZREMRANGEBYRANK', c.log, '0', math.min(dead, TOUCH) - 1)
  elseif c.newest then
    call('UNLINK', c.log)
  end
  call('ZADD', c.log, text(c.now), format('%.0f:%.0f', total, c.exact))
end

-- writeLog writes what the call changes in the log, and returns what is pending.
local function writeLog(c, counted)
  local newest = c.at
  -- First, while the state is still there: a set that is empty for a moment loses its
  -- TTL. And at maxmemory a script may write what it wants once it has freed some.
  if c.ended then call('ZREM', c.log, unpack(c.ended)) end
  if c.exact > 0 then
    addLog(c)
    newest = c.now
  end
  if c.begun then call('ZADD', c.log, text(PENDING + c.lapses), c.begun) end
  local pending = c.pending + (c.reserved or 0) - (c.endedUnits or 0)
  local lapsed = counted and c.lapsed and #c.lapsed > 0
  if lapsed then pending = pending - c.freed end
  writeState(c, math.max(pending, 0), counted and c.now or c.seen, newest)
  if lapsed then call('ZREM', c.log, unpack(c.lapsed)) end
  return pending
end

-- writeSlots writes what the call changes in the slots.
local function writeSlots(c, pending, counted)
  local counts, fresh = c.slotted > 0 or c.begun, c.made == 0
  if counted and c.sum == 0 and (c.made <= 0 or c.drop) then
    call('UNLINK', c.slots)
    fresh, c.behind, c.drop = true, nil, nil
  end
  local set = {}
  local function put(field, value)
    set[#set + 1] = field
    set[#set + 1] = value
  end
  if c.slotted > 0 then put(text(c.here), text(c.held + c.slotted)) end
  if counts or c.drop and counted then
    put('t', text(c.sum + c.slotted))
    if fresh or c.sum == 0 or c.drop then put('o', text(c.sum > 0 and c.first or c.here)) end
  end
  if counts then put('a', text(c.now)) end
  local behind = (c.offset > 0 or pending > 0) and text(c.offset) or nil
  if behind and behind ~= c.behind and (#set > 0 or not fresh) then put('f', behind) end
  if #set > 0 then call('HSET', c.slots, unpack(set)) end
  if c.behind and not behind then call('HDEL', c.slots, 'f') end
  for i = 1, counted and c.drop and #c.drop or 0, 1000 do
    call('HDEL', c.slots, unpack(c.drop, i, math.min(i + 999, #c.drop)))
  end
end

-- write makes what the call did last. A call that counts nothing changes nothing,
-- except that a clock that was set back is noted, or time would stand still.
function f.write(c)
  local counted = c.exact > 0 or c.slotted > 0 or c.begun
  if not counted and not c.ended and not c.moved then return end
  local pending, seen = c.pending, math.max(c.at, c.made)
  if c.exact > 0 or c.begun or c.ended or c.state or c.newest and c.moved then
    pending = writeLog(c, counted)
  end
  if c.slots then writeSlots(c, pending, counted) end
  local new = c.exact > 0 and not c.live or c.slotted > 0 and c.sum == 0
  if new or c.begun or c.moved or counted and floor(seen / c.window) ~= floor(c.now / c.window) then
    local span = c.slots and (c.count + 1) * c.size or c.window
    local ttl = text((c.window + span) / 1000 + 1)
    call('PEXPIRE', c.log, ttl)
    if c.slots then call('PEXPIRE', c.slots, ttl) end
  end
end
