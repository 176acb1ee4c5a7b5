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

-- releases lists in order when the units of slots leave, and how many, until need
-- are together.
local function releases(c, need)
  local list, sum = {}, 0
  local function add(slot, n)
    list[#list + 1] = {(slot + 1 + c.count) * c.size, n}
    sum = sum + n
  end
  if c.sum > 0 then
    local last = math.min(c.first + TOUCH - 1, c.here)
    for i, n in ipairs((f.range(c, c.first, last))) do
      if n and sum < need then add(c.first + i - 1, whole(n)) end
    end
    if sum < need and last < c.here then
      for _, s in ipairs(f.occupied(c, last + 1)) do add(s[1], s[2]) end
    end
  end
  if c.slotted > 0 then list[#list + 1] = {(c.here + 1 + c.count) * c.size, c.slotted} end
  return list
end

-- lapses lists in order when reservations lapse, until need units are together.
local function lapses(c, need)
  local list, sum = {}, 0
  if c.waiting == 0 then return list end
  local first, last = call('ZCOUNT', c.log, '-inf', text(PENDING + c.now)), call('ZCARD', c.log) - 2
  while first <= last and sum < need do
    local m = call('ZRANGE', c.log, first, math.min(first + TOUCH - 1, last), 'WITHSCORES')
    for i = 1, #m, 2 do
      local n = units(m[i])
      list[#list + 1] = {m[i + 1] - PENDING, n}
      sum = sum + n
    end
    first = first + TOUCH
  end
  return list
end

-- merge makes one list of two, with the units that have left at each instant.
local function merge(a, b)
  local times, sums, sum, i, j = {}, {}, 0, 1, 1
  while a[i] or b[j] do
    local e = a[i]
    if not e or b[j] and b[j][1] < e[1] then
      e, j = b[j], j + 1
    else
      i = i + 1
    end
    sum = sum + e[2]
    times[#times + 1], sums[#sums + 1] = e[1], sum
  end
  return times, sums
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
  local slots = c.slots and releases(c, need) or {}
  -- What this very call has counted in the log leaves after all else, but perhaps
  -- before the current slot.
  local rest = lapses(c, need)
  if c.exact > 0 then rest[#rest + 1] = {c.now + c.window, c.exact} end
  local times, sums = merge(slots, rest)
  if #times == 0 then return leave(c, need) end
  local low, high = 1, #times + 1
  while low < high do
    local middle = floor((low + high) / 2)
    if sums[middle] + gone(c, times[middle]) >= need then high = middle else low = middle + 1 end
  end
  need = need - (sums[low - 1] or 0)
  local instant = need > 0 and leave(c, need)
  if times[low] and (not instant or times[low] < instant) then return times[low] end
  return instant
end
