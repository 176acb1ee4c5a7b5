-- Waiting for more than the oldest units. See read.lua for f.

-- search returns when need units of the live entries have been made: the score
-- of the first entry with which the total has grown by need since base, the total
-- in front of the oldest. Interpolation finds it at once where units come evenly,
-- bisection in turn bounds the search where they do not.
local function search(c, need)
  local log, base, at = c.log, c.total - c.logged, c.at
  local low, high = call('ZRANK', log, c.live), call('ZRANK', log, c.newest)
  local below, above, even = 0, c.logged, true
  while low < high do
    local middle = floor((low + high) / 2)
    if even then
      middle = math.min(low + floor((need - below) / (above - below) * (high - low)), high - 1)
    end
    even = not even
    local entry = call('ZRANGE', log, middle, middle, 'WITHSCORES')
    local grown = (parse(entry[1]) - base) % WRAP
    if grown >= need then
      high, above, at = middle, grown, tonumber(entry[2])
    else
      low, below = middle + 1, grown
    end
  end
  return at
end

-- leave returns when need units of the log have left, or nil if it holds less.
local function leave(c, need)
  if not c.live or need > c.logged then return nil end
  if need <= c.units then return c.left end
  return search(c, need) + c.window
end

-- gone returns the units of the log that have left at an instant.
local function gone(c, instant)
  if not c.live then return 0 end
  local e = call('ZREVRANGEBYSCORE', c.log, text(instant - c.window), text(c.left - c.window), 'LIMIT', '0', '1')
  return e[1] and (parse(e[1]) - c.total + c.logged) % WRAP or 0
end

-- releases lists in order what leaves beside the log: slots, reservations, and
-- what this very call has counted. It stops where need units are together.
local function releases(c, need)
  local list, sum = {}, 0
  local first, step = c.first, 4
  while c.sum > 0 and first <= c.here and sum < need do
    local held = range(c, first, math.min(first + step - 1, c.here))
    for i, n in ipairs(held) do
      if n then
        list[#list + 1] = {(first + i + c.count) * c.size, whole(n)}
        sum = sum + n
      end
    end
    first, step = first + step, TOUCH
  end
  if c.slotted > 0 then list[#list + 1] = {(c.here + 1 + c.count) * c.size, c.slotted} end
  return list
end

local function lapses(c, need, list)
  local first, last = call('ZCOUNT', c.log, '-inf', text(PENDING + c.now)), call('ZCARD', c.log) - 2
  local sum = 0
  while first <= last and sum < need do
    local m = call('ZRANGE', c.log, first, math.min(first + TOUCH - 1, last), 'WITHSCORES')
    for i = 1, #m, 2 do
      list[#list + 1] = {m[i + 1] - PENDING, units(m[i])}
      sum = sum + units(m[i])
    end
    first = first + TOUCH
  end
end

-- complete adds to a counter of decide.lua what wait wants to know.
local function complete(c)
  if c.special then return end
  c.waiting, c.logged, c.sum = 0, 0, c.sum or 0
  c.exact, c.slotted = c.exact or 0, c.slotted or 0
  if c.live then
    local base, units = parse(c.live)
    c.units, c.logged = units, (c.total - base + units) % WRAP
    c.left = call('ZSCORE', c.log, c.live) + c.window
  end
end

-- wait returns when need units will have left. Beside the log stands a list that
-- is in no total: bisection finds between which two of it the wait ends, and a
-- search in the log whether one of its entries comes first.
function f.wait(c, need)
  complete(c)
  local list = c.slots and releases(c, need) or {}
  if c.waiting > 0 then lapses(c, need, list) end
  if c.exact > 0 then list[#list + 1] = {c.now + c.window, c.exact} end
  if #list == 0 then return leave(c, need) end
  table.sort(list, function(a, b) return a[1] < b[1] end)
  local sums, sum = {}, 0
  for i, e in ipairs(list) do
    sums[i] = sum -- in front of e
    sum = sum + e[2]
  end
  local low, high = 1, #list + 1
  while low < high do
    local middle = floor((low + high) / 2)
    local e = list[middle]
    if sums[middle] + e[2] + gone(c, e[1]) >= need then high = middle else low = middle + 1 end
  end
  local rest = need - (sums[low] or sum)
  local instant = rest > 0 and leave(c, rest)
  local e = list[low]
  if e and (not instant or e[1] < instant) then return e[1] end
  return instant
end
