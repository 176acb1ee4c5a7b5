-- Take, peek and reserve: one decision on all limits of a request, and on several
-- requests for the same limits at once.
--
-- It sees to the common case itself: no reservation is pending, no clock was set
-- back, no slot has left since the last call, and who is refused wants no more than
-- the oldest units free. All else is in read.lua, wait.lua and write.lua. It makes few functions, and tables
-- of at most 16 fields, since each call pays for them anew.
--
-- KEYS  of each part: the log if exact, else the slots and their log
-- ARGV  operation: t take, p peek, r reserve
--       how many requests
--       id of the reservation, or nothing
--       nothing, or of each part 1 if it is watched, else 0
--       of each part: algorithm (e exact, s slotted, h hybrid), window in µs, N; and
--       unless exact: size of a slot in µs, slots, units above which hybrid is hot
--       of each request, of each part: cost
-- reply of each part: the counter's time in µs, units used before the call, when the
--       oldest of them leaves (0 if there are none); then
--       of each request, of each part: when the cost fits: the counter's time if it
--       does, 0 if it never will

local operation, requests, watched = ARGV[1], ARGV[2] + 0, ARGV[4] ~= '' and ARGV[4]
local parts, size, i, k = {false, false}, 0, 5, 1

-- readLog returns the newest entry with its instant, total and units, the oldest
-- live one, the units of all live ones, when the oldest leaves, and how many with
-- it. It returns false where the log is not in its common state.
local function readLog(log, window)
  local newest = call('ZRANGE', log, '-1', '-1', 'WITHSCORES')
  local at = newest[2] == 'inf' and BEHIND or (newest[2] or 0) + 0
  if at > CLOCK then return false end
  if at <= CLOCK - window then return newest[1] or nil, at, 0, 0, nil, 0, 0, 0 end
  local live = call('ZRANGEBYSCORE', log, format('(%.0f', CLOCK - window), '+inf', 'WITHSCORES', 'LIMIT', '0', '1')
  local total, last = parse(newest[1])
  local base, units = parse(live[1])
  local used = total - base + units
  if used < 0 then used = used + WRAP end
  return newest[1], at, total, last, live[1], used, live[2] + window, units
end

-- Every counter is read before any is written. The fields of one:
--
--   window n      as in ARGV
--   now           its own time
--   used oldest   units, and when the first of them leave (0 if there are none)
--   front         how many leave then, at least; false: those of the slot first
--   over          by how much the cost of the present request exceeds what is free
--   log newest at total last live
--                 the newest entry, its instant, the total after it and its units; and
--                 the oldest entry that is live
--   slots size count here held sum first made
--                 the current slot and its units, the sum and its oldest slot, and the
--                 latest instant, or -1 if all slots have left
--   hot           of hybrid ones alone
--   exact slotted units that this call counts, in the log and in the slots
--   special       read by read.lua, and to be written by write.lua
repeat
  local algorithm, window, c = ARGV[i], ARGV[i + 1] + 0, nil
  if operation == 'r' then
    c = nil
  elseif algorithm == 'e' then
    local log = KEYS[k]
    local newest, at, total, last, live, used, oldest, front = readLog(log, window)
    c = newest ~= false and {
      window = window, n = ARGV[i + 2] + 0, now = CLOCK, used = used, oldest = oldest, front = front, over = 0, exact = 0,
      log = log, newest = newest, at = at, total = total, last = last, live = live,
    }
  else
    local slots, length, count = KEYS[k], ARGV[i + 3] + 0, ARGV[i + 4] + 0
    local here = floor(CLOCK / length)
    local h = call('HMGET', slots, 'a', 't', 'o', 'f', format('%.0f', here))
    local made, sum, first = (h[1] or 0) + 0, (h[2] or 0) + 0, (h[3] or 0) + 0
    if made > 0 and floor(made / length) < here - count then made, sum = -1, 0 end
    local whole = h[1] and h[2] and h[3] and sum >= 0 and sum <= MOST
    if not h[1] and not h[2] and not h[3] and not h[5] then
      -- New, or the slots were lost: then a log that is left may hold reservations.
      whole = algorithm == 'h' or call('EXISTS', KEYS[k + 1]) == 0
    end
    if whole and not h[4] and made <= CLOCK and (sum == 0 or first >= here - count) then
      c = {
        window = window, n = ARGV[i + 2] + 0, now = CLOCK, used = sum, oldest = 0, front = 0, over = 0, slotted = 0,
        slots = slots, size = length, count = count, here = here, held = (h[5] or 0) + 0, sum = sum, first = first, made = made,
      }
      if sum > 0 then c.oldest, c.front = (first + 1 + count) * length, first == here and sum end
    end
    if c and algorithm == 'h' then
      local log = KEYS[k + 1]
      local newest, at, total, last, live, used, oldest, front = readLog(log, window)
      c.hot, c.exact, c.log, c.newest, c.at, c.total, c.last, c.live = ARGV[i + 5] + 0, 0, log, newest, at, total, last, live
      c.used = sum + (used or 0)
      if live and (sum == 0 or oldest < c.oldest) then c.oldest, c.front = oldest, front end
      if newest == false then c = nil end
    end
  end
  if not c then
    c, i, k = rare().read(i, k)
  elseif algorithm == 'e' then
    i, k = i + 3, k + 1
  else
    i, k = i + 6, k + 2
  end
  size = size + 1
  parts[size] = c
until k > #KEYS

-- With room for what most calls answer: to grow costs more than to fill.
local reply, r, counts = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, 3 * size, false
for j = 1, size do
  local c = parts[j]
  reply[3 * j - 2], reply[3 * j - 1], reply[3 * j] = c.now, c.used, c.oldest
end
for _ = 1, requests do
  local admitted = operation ~= 'p'
  for j = 1, size do
    local c = parts[j]
    local cost = ARGV[i + j - 1] + 0
    if cost % 1 ~= 0 or cost < 1 then error('SLIDEGATE a cost is no whole number above 0') end
    local over = cost - (c.n - c.used)
    c.over = over
    if over > 0 and not (watched and watched:byte(j) == 49) then admitted = false end
  end
  for j = 1, size do
    local c, fits = parts[j], nil
    if c.over <= 0 then
      fits = c.now
      if admitted and operation == 't' then
        local cost, left = ARGV[i + j - 1] + 0, fits + c.window
        local used = c.used + cost
        c.used, counts = used, true
        if not c.slots or c.hot and used > c.hot then
          c.exact = c.exact + cost
        else
          c.slotted = c.slotted + cost
          left = (c.here + 1 + c.count) * c.size
        end
        if c.oldest == 0 or left < c.oldest then c.oldest, c.front = left, cost end
      elseif admitted then
        rare().begin(c, ARGV[3], ARGV[i + j - 1] + 0)
      end
    elseif ARGV[i + j - 1] + 0 > c.n then
      fits = 0
    else
      if c.front == false then c.front = (call('HGET', c.slots, format('%.0f', c.first)) or 0) + 0 end
      fits = c.over <= c.front and c.oldest or rare().wait(c, c.over)
    end
    r = r + 1
    reply[r] = fits
  end
  i = i + size
end
reply[r + 1] = nil

local now = counts and TIME[1] .. ('00000' .. TIME[2]):sub(-6)
for j = 1, size do
  local c = parts[j]
  if c.special then
    rare().write(c)
  elseif counts then
    local window, exact, slotted, renew = c.window, c.exact or 0, c.slotted or 0, false
    if exact > 0 then
      if c.live then
        append(c.log, window, now, CLOCK, exact, c.n, c.live, c.newest, c.at, c.total, c.last)
      else
        if c.newest then call('UNLINK', c.log) end
        call('ZADD', c.log, now, format(exact == 1 and '%.0f' or '%.0f:%.0f', exact, exact))
      end
      renew = not c.live or floor(c.at / window) ~= floor(CLOCK / window)
    end
    if slotted > 0 then
      local here, held, sum = format('%.0f', c.here), format('%.0f', c.held + slotted), format('%.0f', c.sum + slotted)
      if c.sum > 0 then
        call('HSET', c.slots, here, held, 't', sum, 'a', now)
      else
        call('UNLINK', c.slots)
        call('HSET', c.slots, here, held, 't', sum, 'a', now, 'o', here)
      end
      renew = renew or c.sum == 0 or floor(c.made / window) ~= floor(CLOCK / window)
    end
    if renew then
      -- Both keys of a hybrid one at once: after a step back of the clock what one
      -- holds may count again, so neither may go before the other.
      local span = c.slots and (c.count + 1) * c.size or window
      local ttl = format('%.0f', (window + span) / 1000 + 1)
      if c.log then call('PEXPIRE', c.log, ttl) end
      if c.slots then call('PEXPIRE', c.slots, ttl) end
    end
  end
end
return reply
