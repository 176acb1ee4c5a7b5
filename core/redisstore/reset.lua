-- Reset: forgets a key, whatever is stored under it.
--
-- KEYS  as in decide.lua
-- ARGV  how many parts
-- reply as of settle.lua

local time = redis.call('TIME')
redis.call('UNLINK', unpack(KEYS))
local reply, parts = {}, ARGV[1] + 0
for j = 1, parts do
  reply[3 * j - 2], reply[3 * j - 1], reply[3 * j] = time[1] * 1000000 + time[2], 0, 0
end
for j = 1, parts do reply[3 * parts + j] = 1 end
return reply
