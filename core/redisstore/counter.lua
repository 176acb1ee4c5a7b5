-- How a counter is stored. Every script but reset.lua begins with this file.
--
-- Exact counters are a log, slotted ones slots, hybrid ones both.
--
-- The log is a sorted set. An entry stands for the units of one instant: its score
-- is that instant in microseconds, its member the running total of all units so far:
-- "123", or "123:5" where it stands for 5 units. What is used is then the newest
-- total less the total in front of the oldest live entry, and the wait for a cost is
-- a search by rank: nothing is walked, however many entries are live or dead.
-- Behind the entries lie the pending reservations, member "id:units", score PENDING +
-- the instant at which they lapse; and at +inf the state, member
-- "s:pending:offset:seen": the units pending, what the clock is behind the counter's
-- own time, and the latest instant at which units were counted. The state is there
-- only while it says more than the newest entry does.
--
-- The slots are a hash. Its fields are slot numbers since the epoch, never modulo n,
-- with the units of each slot; "t", their sum; "o", the oldest slot that holds some;
-- "a", the latest instant at which units were counted; and "f", what the clock is
-- behind the counter's own time, if it is, or if reservations are pending: these are
-- in a log under the second key, with its state.
--
-- All numbers stay below 2^53, where doubles are whole. Totals start again from 0 at
-- WRAP; what is used never exceeds MOST, so that differences survive that.
--
-- A key gets a TTL when it is new and again with the first units of each window, of
-- the time that units count and a window more: so it lives until its last unit has
-- left, and at most a window longer.

local PENDING = 4000000000000000
local BEHIND = 9000000000000000 -- above the score of every reservation
local WRAP = 4503599627370496
local MOST = 4000000000000000
local TOUCH = 64 -- entries that a call removes at a time

local KEYS, ARGV = KEYS, ARGV -- globals cost more
local call, format, floor = redis.call, string.format, math.floor

-- Read once: Redis before 7.2 lets time pass within a script.
local TIME = call('TIME')
local CLOCK = TIME[1] * 1000000 + TIME[2]

-- parse returns the total after an entry, and its units.
local function parse(member)
  local total = tonumber(member)
  if total and total % 1 == 0 and total >= 0 and total < WRAP then return total, 1 end
  local sum, units = string.match(member, '^(%d+):(%d+)$')
  total, units = tonumber(sum), tonumber(units)
  if not units or total >= WRAP or units > MOST then
    error('SLIDEGATE a member of the log is no entry')
  end
  return total, units
end

-- append counts units made at now, behind the newest entry that is live.
-- Entries that have left go now and then, TOUCH at a time: never on a refusal,
-- for if the clock were set back after it they would have to count again.
local function append(log, window, score, now, units, n, live, newest, at, total, last)
  local sum = total + units
  if sum >= WRAP then sum = sum - WRAP end
  -- Up to 128 entries Redis keeps a sorted set in 1.8 KB, from 129 on in 14.6 KB:
  -- a counter that can stay below must not leave that for the sake of dead ones.
  local step = floor(n / 8)
  if step > 32 then step = 32 elseif step < 8 then step = 8 end
  if n <= 128 and n + step > 128 then step = 128 - n end
  if step < 1 or floor(total / step) ~= floor(sum / step) then
    local dead = call('ZRANK', log, live)
    if dead > 512 and call('ZCARD', log) - dead <= TOUCH then
      -- A set keeps the memory of the entries that it once had: write it anew.
      local rest = call('ZRANGE', log, dead, '-1', 'WITHSCORES')
      local ttl = call('PTTL', log)
      call('UNLINK', log)
      for i = 1, #rest, 2 do call('ZADD', log, rest[i + 1], rest[i]) end
      call('PEXPIRE', log, ttl > 0 and ttl or format('%.0f', window / 500 + 1))
    elseif dead > 0 then
      call('ZREMRANGEBYRANK', log, '0', (dead < TOUCH and dead or TOUCH) - 1)
    end
  end
  if at == now then
    units = units + last
    -- The last member out takes the key and its TTL with it: remove it first only
    -- if another one stays.
    if live ~= newest then call('ZREM', log, newest) end
  end
  if units == 1 then
    call('ZADD', log, score, format('%.0f', sum))
  else
    call('ZADD', log, score, format('%.0f:%.0f', sum, units))
  end
  if at == now and live == newest then call('ZREM', log, newest) end
end
