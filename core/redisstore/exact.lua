-- Takes from one exact limit, which is what most requests ask for. It stands in
-- front of the functions and tables of the other files, which cost as much as half
-- of what it does. It leaves to them a counter with a state (reservations pending,
-- a clock set back), and who must wait for more than the oldest entry.
--
-- KEYS, ARGV and reply are those of decide.lua.

if KEYS[2] == nil and ARGV[5] == 'e' and ARGV[1] == 't' then
  local log, window, n = KEYS[1], ARGV[6] + 0, ARGV[7] + 0
  local newest = call('ZRANGE', log, '-1', '-1', 'WITHSCORES')
  local at = newest[2] == 'inf' and BEHIND or (newest[2] or 0) + 0
  if at <= CLOCK then
    local used, oldest, leaves, units, total, last, live = 0, 0, CLOCK + window, MOST, 0, 0, nil
    if at > CLOCK - window then
      live = call('ZRANGEBYSCORE', log, format('(%.0f', CLOCK - window), '+inf', 'WITHSCORES', 'LIMIT', '0', '1')
      total, last = parse(newest[1])
      local base
      base, units = parse(live[1])
      used, oldest, live = total - base + units, live[2] + window, live[1]
      if used < 0 then used = used + WRAP end
      leaves = oldest
    end

    local reply, taken, free = {CLOCK, used, oldest, 0}, 0, n - used
    for r = 8, #ARGV do
      local cost = ARGV[r] + 0
      if cost % 1 ~= 0 or cost < 1 then error('SLIDEGATE a cost is no whole number above 0') end
      if cost <= free then
        taken, free, reply[r - 4] = taken + cost, free - cost, CLOCK
      elseif cost > n then
        reply[r - 4] = 0
      elseif cost - free <= units then
        reply[r - 4] = leaves
      else
        reply = nil
        break
      end
    end

    if reply and taken > 0 then
      local now = TIME[1] .. ('00000' .. TIME[2]):sub(-6)
      if live then
        append(log, window, now, CLOCK, taken, n, live, newest[1], at, total, last)
      else
        if newest[1] then call('UNLINK', log) end
        call('ZADD', log, now, taken == 1 and '1' or format('%.0f:%.0f', taken, taken))
      end
      if not live or floor(at / window) ~= floor(CLOCK / window) then
        call('PEXPIRE', log, format('%.0f', window / 500 + 1))
      end
    end
    if reply then return reply end
  end
end
