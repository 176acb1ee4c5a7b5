-- Lease: ends a block of units that an instance took in advance, and begins the next.
--
-- The units of a lease are pending, as those of a reservation are, but for a window
-- after its end: the last of them may be spent that late. Once it has ended, those that
-- were spent count as made now, and the others are free.
--
-- KEYS  as in decide.lua
-- ARGV  id of the lease that ends; id of the one that begins
--       the most units that it may have; 0: none begins, and should it have begun,
--       unknown to the instance, it is taken back
--       how long it lasts, in µs
--       of each part: units of the lease that ends, 0 if none does; units of it that were
--       spent; the latest instant at which they may have been; and what decide.lua has
--       of a part
-- reply of each part: the counter's time in µs, units used after the call, when the
--       oldest leaves (0 if there are none); then
--       of each part: units of the lease that has begun, 0 if none has

local SHARE = 4 -- a lease gets at most one in so many units that are free
local LEAST = 8 -- and none is begun for less

local ends, begins, most, lasts = ARGV[1], ARGV[2] .. ':', ARGV[3] + 0, ARGV[4] + 0
local parts, free, i, k = {}, MOST, 5, 1

-- takeBack ends the lease that has begun unknown to the instance. It is one of those
-- that lapse last.
local function takeBack(c)
  if c.pending == 0 then return end
  local last = call('ZREVRANGEBYSCORE', c.log, '9000000000000000', format('(%.0f', PENDING + c.now), 'LIMIT', '0', TOUCH)
  for _, m in ipairs(last) do
    if m:sub(1, #begins) == begins then rare().ending(c, m, m:sub(#begins + 1) + 0) end
  end
end

repeat
  local units, spent, latest = ARGV[i] + 0, ARGV[i + 1] + 0, ARGV[i + 2] + 0
  if units % 1 ~= 0 or units < 0 or spent % 1 ~= 0 or spent < 0 or spent > units then
    error('SLIDEGATE the units of a lease are no whole numbers')
  end
  local own = ends .. ':' .. ARGV[i]
  local lapses = units > 0 and call('ZSCORE', KEYS[ARGV[i + 3] == 'e' and k or k + 1], own)
  local c
  c, i, k = rare().read(i + 3, k, own, lapses and latest)
  if lapses and lapses - PENDING > c.now then
    rare().ending(c, own, units)
    if spent > 0 then rare().count(c, spent) end
  end
  if most == 0 then takeBack(c) end
  free = math.min(free, c.n - c.used)
  parts[#parts + 1] = c
until k > #KEYS

local units = math.min(most, floor(free / SHARE))
if units < LEAST then units = 0 end
local reply = {}
for _, c in ipairs(parts) do
  if units > 0 then rare().begin(c, ARGV[2], units, lasts) end
  reply[#reply + 1] = c.now
  reply[#reply + 1] = c.used
  reply[#reply + 1] = c.oldest
  rare().write(c)
end
for _ = 1, #parts do reply[#reply + 1] = units end
return reply
