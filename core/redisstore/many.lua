-- Takes from one exact limit of each of many keys, which is what requests that come at
-- the same time mostly ask for: what a script costs before it does anything, and the
-- reading of the clock, they share. One server must hold all keys.
--
-- It leaves alone a counter that is not in its common state, or at which it fails:
-- nothing is counted there, and the caller asks decide.lua about it.
--
-- KEYS  the logs
-- ARGV  of each log: window in µs, N, how many requests; of each request: cost
-- reply the clock in µs; then of each log: units used before the call, or -1 if it was
--       left alone; when the oldest of them leaves (0 if there are none); and of each
--       request: when the cost fits: the clock if it does, 0 if it never will

local reply, width, cut = {CLOCK}, false, nil
local now = TIME[1] .. ('00000' .. TIME[2]):sub(-6)

-- take answers the requests whose costs begin at ARGV[i], into reply from r on. It
-- returns false if the counter is to be left alone.
local function take(log, window, n, i, requests, r)
  local newest = call('ZRANGE', log, '-1', '-1', 'WITHSCORES')
  local at = newest[2] == 'inf' and BEHIND or (newest[2] or 0) + 0
  if at > CLOCK then return false end
  local used, oldest, leaves, units, total, last, live = 0, 0, CLOCK + window, MOST, 0, 0, nil
  if at > CLOCK - window then
    live = call('ZRANGEBYSCORE', log, cut, '+inf', 'WITHSCORES', 'LIMIT', '0', '1')
    total, last = parse(newest[1])
    local base
    base, units = parse(live[1])
    used, oldest, live = total - base + units, live[2] + window, live[1]
    if used < 0 then used = used + WRAP end
    leaves = oldest
  end

  local taken, free = 0, n - used
  reply[r], reply[r + 1] = used, oldest
  for j = 0, requests - 1 do
    local cost = ARGV[i + j] + 0
    if cost % 1 ~= 0 or cost < 1 then return false end
    local fits
    if cost <= free then
      taken, free, fits = taken + cost, free - cost, CLOCK
    elseif cost > n then
      fits = 0
    elseif cost - free <= units then
      fits = leaves
    else
      return false
    end
    reply[r + 2 + j] = fits
  end

  if taken > 0 then
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
  return true
end

local i, r = 1, 2
for k = 1, #KEYS do
  local window, requests = ARGV[i] + 0, ARGV[i + 2] + 0
  if window ~= width then width, cut = window, format('(%.0f', CLOCK - window) end
  local ran, whole = pcall(take, KEYS[k], window, ARGV[i + 1] + 0, i + 3, requests, r)
  if not ran or not whole then
    reply[r] = -1
    for j = 1, requests + 1 do reply[r + j] = 0 end
  end
  i, r = i + 3 + requests, r + 2 + requests
end
return reply
