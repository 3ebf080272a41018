-- Counts the processes that share a limit: members of a sorted set, by the time in ms of their last beat.
--
-- KEYS: the set, and the marker of its slot. ARGV: the process's name; for how many ms a beat counts, 0 to leave.
-- Returns the number of processes, and the marker.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local length = tonumber(ARGV[2])
if length == 0 then
  redis.call('ZREM', KEYS[1], ARGV[1])
else
  redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now - length))
  -- A clock that stepped back leaves beats in the future.
  redis.call('ZREMRANGEBYSCORE', KEYS[1], string.format('%.0f', now + length), '+inf')
  redis.call('ZADD', KEYS[1], string.format('%.0f', now), ARGV[1])
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return { redis.call('ZCARD', KEYS[1]), redis.call('GET', KEYS[2]) }
