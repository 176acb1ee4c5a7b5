-- Commit, correct and cancel: the end of a reservation on all limits it was made on.
--
-- KEYS  as in decide.lua
-- ARGV  operation: c commit, x correct, g cancel
--       id of the reservation
--       of each part: units that were reserved, units in their place, and what
--       decide.lua has of a part
-- reply of each part: the counter's time in µs, units used after the call, when the
--       oldest leaves (0 if there are none); then
--       of each part: 1 if the reservation was pending

local operation, id = ARGV[1], ARGV[2]
local parts, i, k = {}, 3, 1
repeat
  local reserved, cost, own = ARGV[i] + 0, ARGV[i + 1] + 0, id .. ':' .. ARGV[i]
  if reserved % 1 ~= 0 or reserved < 0 or cost % 1 ~= 0 or cost < 0 then
    error('SLIDEGATE the units of a reservation are no whole numbers')
  end
  local lapses = call('ZSCORE', KEYS[ARGV[i + 2] == 'e' and k or k + 1], own)
  local c, units, pending = nil, 0, 0
  c, i, k = rare().read(i + 2, k, own)
  if lapses and lapses - PENDING > c.now then
    pending = 1
    rare().ending(c, own, reserved)
    if operation == 'c' then units = reserved elseif operation == 'x' then units = cost end
  elseif operation == 'x' then
    -- What was reserved has been accounted for; the excess never was.
    units = cost - reserved
  end
  units = math.min(units, MOST - c.used)
  if units > 0 then rare().count(c, units) end
  parts[#parts + 1] = c
  c.wasPending = pending
until k > #KEYS
local reply = {}
for j, c in ipairs(parts) do
  reply[#reply + 1] = c.now
  reply[#reply + 1] = c.used
  reply[#reply + 1] = c.oldest
  rare().write(c)
end
for _, c in ipairs(parts) do reply[#reply + 1] = c.wasPending end
return reply
