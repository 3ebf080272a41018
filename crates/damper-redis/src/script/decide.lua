-- The shared bucket of one limit across machines: the one script that decides. `server/beat.lua` counts processes.
--
-- It runs take, lease or reset on the limits of one subject, or a take on limits by plan, with the server's own time. Every amount is a whole number
-- in a double, so nothing here may exceed 2^53, or it would be rounded. Times are µs since 1970. It is one long file, because a
-- server runs a script as one text.
--
-- A LIMIT is a token bucket. Tokens drip in at p tokens in q µs. Its debt, counted from a full bucket, is owed - frac / q
-- tokens: `owed` is the debt rounded up, `frac` the part of the next token that has dripped in.
-- Its state is one key:
--
--     at gen ver safe told owed frac q lost until  end count  end count ...
--
--   at     the time up to which tokens have dripped in.
--   gen    the version at which this state began, or at which its clock was healed. Tokens leased before are unknown.
--   ver    its version, one more with each write. A new state begins with the time in µs for a version, and none is written once a
--          µs, so a version is lower than that of every state that begins later.
--   safe   a process that saw a version below this one missed no loss, because the limit began empty since then; 0 if it began
--          full.
--   told   the latest time that a process was told for a full bucket. The key lives until then, so that a limit that is
--          missing before then was lost.
--   q      the period in which `frac` is counted.
--   lost   the leased tokens that no holder is known of, because a state was lost; 0 if none was, or after `until`.
--   until  the end of these.
--   end, count   a slot: so many leased tokens end at this time. At most 10, earliest first. `held` is the sum of the counts.
--
-- What is stored begins with a byte, the number of this layout; then each number is a double, lowest byte first.
-- Text would take longer to read and to write.
--
-- THE CEILING. Leased tokens count as still in the bucket, so the bucket fills up to burst - held: owed >= held, always. Then
-- what the bucket and its holders have together never exceeds the burst, and so what is spent in any interval of t µs never
-- exceeds burst + t * p / q.
--
-- A HOLDER is a key of its own, which expires after a lease, so that the script costs the same for any number of holders:
--
--     gen seq ack granted kept end length charge
--
-- of the last request of this holder: its number, the last response that the holder had applied, what was granted and
-- kept, the slot in which both are counted, the length of the lease, and the sum of charges since `ack` that was booked.
--
-- A STATE THAT WAS LOST may have left H leased tokens with its holders. So the state after it begins empty, and a phantom holder
-- has H for one lease. Others may lease meanwhile, but no more than M in all, and each for a short time V, because the server may
-- forget these leases too, any number of times. Within V of the last loss, H are out, M that one forgotten state may have leased
-- at once, and what dripped in within V. So M = min(H, (burst - H) / 2), and V is the time in which burst - H - M drips in: then
-- all that is leased or in the bucket is never more than the burst. After V the ceiling of the phantom holder ensures that.
--
-- A LIMIT BY PLAN is a bucket whose quota comes with each command, so its state must be one that any plan can read. It is the
-- instant at which the bucket is full, full + rest / p µs, and what is reserved and unsettled:
--
--     full rest p longest gen ver safe told begun current before
--
--   p        that of the plan that wrote it. This plan reads the instant exactly, so nothing drifts. For another one it is rounded
--            up to that plan's parts of a µs, by less than 1 / q tokens.
--   longest  the longest time that the deepest debt of a plan takes, of all plans that wrote. An instant further ahead is of a clock
--            that stepped back.
--   begun    when the generation began in which `current` is counted. Generations are as long as a reservation may live.
--   current, before   what is unsettled of the reservations of this generation and of the one before, in parts of a burst.
--
-- A command converts the instant to a debt in tokens of its plan, decides as for every limit, and converts the debt back. The debt
-- is not cut to a plan's deepest one: with plans that alternate, a cut would let the slower plan take as often as the faster one
-- calls. A limit by plan is never leased. A refund is given only for what is counted as unsettled, and takes it out of the count.
-- So the refunds of any time are at most what was unsettled when it began and what was reserved in it, whatever commands arrive
-- twice, late or never.
--
-- THE MARKER is a key without expiry: one in each slot of a cluster, or one on a server that is no cluster. It holds a time by
-- which the server had lost its memory for the last time. If it is missing, the server has just lost it.
--
-- Decided so that nothing is admitted twice:
--   * Processes with different terms (a rolling deployment). The terms of the command at hand hold: also for the time since the
--     last write. `frac` is converted to the new period, rounded down. A debt deeper than the new deepest debt is cut to that.
--     The slots keep their ends; a larger H than now allowed is not revoked, but nothing is granted until it fits.
--     The limits of a set are known by their places in it.
--   * Leases of another length. Slots keep their ends. An eleventh slot is joined to the next later one, or moves the last one
--     later. Holders of a moved slot are unknown from then on: what they have counts as spent at its end. The phantom holder of a
--     state that was lost has it for a lease of the command at hand, so processes with longer leases may exceed by what they hold.
--   * A holder of a state that was lost, or whose clock was healed, is unknown: what it has left counts as spent.
--   * A holder that claims more tokens than it was granted is not believed at all.
--   * A state that cannot be read was lost. So was one of another layout.
--   * A request that is stale or late gets no levels. Its holder keeps the tokens that it has, and asks again.
--   * A rate of 0 never fills the bucket, so its key never expires. No plan has that rate.
--   * A limit by plan that was lost begins empty for the plan of the command at hand.
--   * A reservation of a time to come, of a clock that stepped back, is not counted any more.

local TAKE, LEASE, BY_PLAN = 0, 1, 3
local DONE, DENIED, LATE, STALE = 0, 1, 2, 3
local EXACT = 9007199254740992 -- 2^53
local NEVER = EXACT - 1
local SLOTS = 10
-- How many numbers a state without slots has, a holder, and a state by plan.
local OF_STATE, OF_HOLDER, OF_PLANNED = 10, 8, 11
-- Reservations are counted in this part of a burst.
local PARTS_PER_BURST = 16384

local floor, ceil, max, min = math.floor, math.ceil, math.max, math.min
local call = redis.call

local operation, not_after, lease, after_loss =
    ARGV[1] + 0, ARGV[2] + 0, ARGV[3] + 0, ARGV[4] + 0

local by_plan = operation == BY_PLAN
-- The layout of what is stored.
local LAYOUT = by_plan and 2 or 1

local clock = call('TIME')
local now = clock[1] * 1000000 + clock[2]

-- A server that was paused and continues runs commands that its clients have given up long ago.
if not_after > 0 and now > not_after then
    return { LATE, now }
end

-- The end of a lease that begins at `from`: rounded up, so that all leases share a few slots.
local function lease_end(from, length)
    local step = max(1, floor(length / 8))
    return ceil((from + length) / step) * step
end

-- floor((a * b + c) / q) and its remainder, exactly. a < q, c < q, q <= 2^48, b <= 2^48.
local function multiply_divide(a, b, c, q)
    if q * (b + 1) <= EXACT then
        local product = a * b + c
        local rest = product % q
        return (product - rest) / q, rest
    end
    -- Digit by digit of b, highest first: each step stays below 2 * radix * q <= 2^53.
    local radix = floor((EXACT / q - 1) / 2)
    local digits, length = {}, 0
    while b > 0 do
        length = length + 1
        digits[length] = b % radix
        b = (b - digits[length]) / radix
    end
    local whole, rest = 0, 0
    for place = length, 1, -1 do
        local sum = rest * radix + digits[place] * a
        if place == 1 then
            sum = sum + c
        end
        rest = sum % q
        whole = whole * radix + (sum - rest) / q
    end
    return whole, rest
end

-- The whole tokens that drip in within `time`, and the new fraction. More than 2^53 tokens are rounded, but any bucket is full
-- long before.
local function drip(limit, time, frac)
    local part = time % limit.q
    local whole, rest = multiply_divide(part, limit.p, frac, limit.q)
    return (time - part) / limit.q * limit.p + whole, rest
end

local function apply_ceiling(limit)
    if limit.owed <= limit.held then
        limit.owed, limit.frac = limit.held, 0
    end
end

local function refill(limit, to)
    if to > limit.at then
        local whole, frac = drip(limit, to - limit.at, limit.frac)
        limit.owed, limit.frac, limit.at = limit.owed - whole, frac, to
        apply_ceiling(limit)
    end
end

-- Begins a state that was empty at `at`, with a phantom holder: all that may be leased may be out, for one lease.
local function begin_empty(limit, version, safe, at)
    local lost = max(limit.held, limit.hold)
    limit.ver, limit.gen, limit.safe = version, version, safe
    limit.at, limit.owed, limit.frac, limit.held = at, max(limit.owed, limit.burst), 0, lost
    limit.ends, limit.counts, limit.lost, limit.lost_until = {}, {}, lost, 0
    limit.current, limit.before = 0, 0
    if lost > 0 then
        limit.lost_until = lease_end(at, lease)
        limit.ends, limit.counts = { limit.lost_until }, { lost }
    end
    limit.changed = true
end

-- Returns the marker's time. A marker that is missing is set to now. So is one of a time to come, because the clock stepped back:
-- otherwise the limit would stay empty for the whole step.
local function marked_time()
    local marker = tonumber(call('GET', KEYS[1]))
    if not marker or not (marker <= now) then
        marker = now
        call('SET', KEYS[1], string.format('%.0f', now))
    end
    return marker
end

-- Returns the numbers of a key's value, and how many they are; nothing if this script did not write it.
local function numbers_of(value, least, most)
    local length = value and (#value - 1) / 8
    if not length or length < least or length > most or length % 1 > 0 or string.byte(value) ~= LAYOUT then
        return
    end
    -- One more than that: the position behind them.
    local numbers = { struct.unpack('<' .. string.rep('d', length), value, 2) }
    for index = 1, length do
        local number = numbers[index]
        if not (number >= 0 and number <= NEVER and number % 1 == 0) then
            return
        end
    end
    return numbers, length
end

-- Fills in the state as it was stored. Returns whether there was one that could be read.
local function read(limit, value)
    local numbers, length = numbers_of(value, OF_STATE, OF_STATE + 2 * SLOTS)
    if not numbers or length % 2 > 0 or numbers[7] >= numbers[8] then
        return false
    end
    limit.at, limit.gen, limit.ver, limit.safe = numbers[1], numbers[2], numbers[3], numbers[4]
    limit.told, limit.owed, limit.frac = numbers[5], numbers[6], numbers[7]
    limit.lost, limit.lost_until = numbers[9], numbers[10]
    if limit.told >= NEVER and limit.p > 0 then
        -- The rate was 0 and no longer is. Without this the key would stay for ever.
        limit.told = 0
    end
    local q = numbers[8]
    if q ~= limit.q and limit.frac > 0 then
        limit.frac = multiply_divide(limit.frac, limit.q, 0, q)
    end
    for slot = 1, (length - OF_STATE) / 2 do
        local count = numbers[OF_STATE + 2 * slot]
        limit.ends[slot], limit.counts[slot] = numbers[OF_STATE - 1 + 2 * slot], count
        limit.held = limit.held + count
    end
    return true
end

-- The functions of limits by plan, which other commands need not make: fill in the state as it was stored, with the debt as this
-- plan counts it; count a reservation that is settled as unsettled no more; return what is to be stored, and until when.
local read_by_plan, settle_counted, state_by_plan
if by_plan then
    local arguments = 10 * (#KEYS - 1) + 5
    local time_to_live, most, since = ARGV[arguments] + 0, ARGV[arguments + 1] + 0, ARGV[arguments + 2] + 0

    function read_by_plan(limit, number, value)
        limit.count, limit.counted = ARGV[arguments + 1 + 2 * number] + 0, ARGV[arguments + 2 + 2 * number] + 0
        limit.longest = floor(limit.deepest * limit.q / limit.p) + 1
        limit.begun, limit.most = now - now % time_to_live, most
        local numbers = numbers_of(value, OF_PLANNED, OF_PLANNED)
        if not numbers or numbers[2] >= numbers[3] then
            return false
        end
        local full, rest, p, longest = unpack(numbers, 1, 4)
        limit.gen, limit.ver, limit.safe, limit.told = unpack(numbers, 5, 8)
        limit.longest = max(limit.longest, longest)
        if full - now > limit.longest then
            full, rest = now + limit.longest, 0
            limit.ver = limit.ver + 1
            limit.gen, limit.safe, limit.changed = limit.ver, limit.ver, true
        end
        if p ~= limit.p then
            rest = multiply_divide(rest, limit.p, p - 1, p)
        end
        if full >= now then
            local whole, part = drip(limit, full - now, rest % limit.q)
            limit.owed = whole + (rest - rest % limit.q) / limit.q
            if part > 0 then
                limit.owed, limit.frac = limit.owed + 1, limit.q - part
            end
        end
        local begun, current, before = unpack(numbers, 9, 11)
        if now - begun >= time_to_live and now - begun < 2 * time_to_live then
            limit.before = current
        elseif now >= begun and now - begun < time_to_live then
            limit.begun, limit.current, limit.before = begun, current, before
        end
        return true
    end

    function settle_counted(limit)
        local counted = 0
        if since >= limit.begun and since <= now then
            counted = min(limit.counted, limit.current)
            limit.current = limit.current - counted
        elseif since < limit.begun and since >= limit.begun - time_to_live then
            counted = min(limit.counted, limit.before)
            limit.before = limit.before - counted
        end
        limit.changed = limit.changed or counted > 0
        local is_alive = now - since <= time_to_live
        limit.refund = is_alive and min(limit.refund, floor(counted * limit.burst / PARTS_PER_BURST)) or 0
    end

    function state_by_plan(limit)
        local instant, rest = limit.at, 0
        if limit.owed > 0 then
            -- Of the last token owed, in parts of which a µs has p.
            local last = limit.q - limit.frac
            local whole, part = drip({ p = limit.q, q = limit.p }, limit.owed - 1, last % limit.p)
            instant, rest = instant + whole + (last - last % limit.p) / limit.p, part
        end
        local unsettled_until = limit.current + limit.before > 0 and limit.begun + 2 * time_to_live or 0
        return struct.pack('<B' .. string.rep('d', OF_PLANNED), LAYOUT,
            instant, rest, limit.p, limit.longest, limit.gen, limit.ver, limit.safe, limit.told,
            limit.begun, limit.current, limit.before), max(limit.told, unsettled_until)
    end
end

-- Returns the limit of a key, its value and 10 arguments: in its stored state, or in the one that it must be assumed to have.
local function load(number, value)
    local key, first = KEYS[number + 1], 10 * number - 5
    local limit = {
        key = key,
        p = ARGV[first] + 0, q = ARGV[first + 1] + 0,
        burst = ARGV[first + 2] + 0, deepest = ARGV[first + 3] + 0, hold = ARGV[first + 4] + 0,
        amount = ARGV[first + 7] + 0, charge = ARGV[first + 8] + 0, refund = ARGV[first + 9] + 0,
        -- A full bucket, unless something else is known.
        ver = now, gen = now, safe = 0, told = 0, at = now, owed = 0, frac = 0, held = 0,
        lost = 0, lost_until = 0, ends = {}, counts = {}, current = 0, before = 0, changed = false,
    }
    limit.hold = min(limit.hold, limit.burst)
    local seen_version, seen_full_at = ARGV[first + 5] + 0, ARGV[first + 6] + 0
    local stored
    if by_plan then
        stored = read_by_plan(limit, number, value)
    else
        stored = read(limit, value)
    end
    local lost
    if after_loss == 0 then
        lost = false
    elseif stored then
        -- Older than what the process saw, or begun since then without being empty.
        lost = seen_full_at > now
            and (seen_version > limit.ver or (seen_version < limit.gen and seen_version >= limit.safe))
    else
        -- A value that cannot be read is as good as lost.
        lost = value or seen_full_at > now
    end
    local loss
    if not stored then
        loss = marked_time()
    end
    if lost then
        local version = max(now, limit.ver, seen_version) + 1
        limit.told = max(limit.told, seen_full_at)
        begin_empty(limit, version, version, now)
    elseif not stored and now - loss < after_loss then
        begin_empty(limit, now, loss, loss)
    end
    limit.stored = stored
    return limit
end

-- Heals a clock that stepped back, as when a replica is promoted: the debt as of now would be deeper than any can be. A smaller
-- step only stops the clock of this limit for its length. Also cuts a debt that is deeper than new terms allow.
local function heal(limit)
    if now >= limit.at then
        if limit.owed > max(limit.deepest, limit.held) then
            limit.owed, limit.frac, limit.changed = max(limit.deepest, limit.held), 0, true
        end
        return
    end
    local whole, rest = drip(limit, limit.at - now, 0)
    local excess = limit.owed + whole - limit.deepest
    if excess < 0 or (excess == 0 and rest <= limit.frac) then
        return
    end
    -- Written even if the take is denied, else the limit would stand still until the clock is back at `at`.
    limit.ver = limit.ver + 1
    limit.gen, limit.safe = limit.ver, limit.ver
    limit.at, limit.owed, limit.frac, limit.changed = now, max(limit.deepest, limit.held), 0, true
    local last = lease_end(now, lease)
    limit.lost_until = min(limit.lost_until, last)
    for slot = #limit.ends, 1, -1 do
        if limit.ends[slot] > last then
            limit.ends[slot] = last
        end
        if limit.ends[slot + 1] == limit.ends[slot] then
            limit.counts[slot] = limit.counts[slot] + table.remove(limit.counts, slot + 1)
            table.remove(limit.ends, slot + 1)
        end
    end
end

-- Leases end in order. Up to each end the bucket fills under the ceiling that held until then.
local function catch_up(limit)
    local time = max(now, limit.at)
    while limit.ends[1] and limit.ends[1] <= time do
        refill(limit, limit.ends[1])
        limit.held = limit.held - table.remove(limit.counts, 1)
        table.remove(limit.ends, 1)
    end
    if limit.lost_until <= time then
        limit.lost, limit.lost_until = 0, 0
    end
    refill(limit, time)
end

-- A refund gives nothing while the debt exceeds the burst, because that debt may have been cut. A charge stops at the deepest debt.
local function settle(limit)
    if by_plan then
        settle_counted(limit)
    end
    if limit.refund > 0 then
        limit.changed = true
        if by_plan or limit.owed <= limit.burst then
            limit.owed = limit.owed - limit.refund
            apply_ceiling(limit)
        end
    end
    if limit.charge > 0 then
        limit.changed = true
        limit.owed = max(limit.owed, min(limit.owed + limit.charge, limit.deepest))
    end
end

-- When the bucket is full if nothing else is taken, rounded up. Holders may keep it from filling until the last lease has ended.
local function full_at(limit)
    local full = limit.at
    if limit.owed > 0 then
        full = NEVER
        if limit.p > 0 then
            full = limit.at + floor((limit.owed * limit.q - limit.frac) / limit.p) + 1
            if limit.held > 0 then
                full = max(full, limit.ends[#limit.ends] + floor(limit.held * limit.q / limit.p) + 1)
            end
        end
    end
    return min(full, NEVER)
end

local function set(key, value, until_time)
    if until_time >= NEVER then
        call('SET', key, value)
    else
        call('SET', key, value, 'PX', floor(max(0, until_time - now) / 1000) + 3)
    end
end

local function write(limit, full)
    limit.ver, limit.told = limit.ver + 1, max(limit.told, full)
    if by_plan then
        return set(limit.key, state_by_plan(limit))
    end
    local slots, length = {}, 0
    for slot = 1, #limit.ends do
        slots[length + 1], slots[length + 2] = limit.ends[slot], limit.counts[slot]
        length = length + 2
    end
    set(limit.key, struct.pack('<B' .. string.rep('d', OF_STATE + length), LAYOUT,
        limit.at, limit.gen, limit.ver, limit.safe, limit.told, limit.owed, limit.frac, limit.q, limit.lost, limit.lost_until,
        unpack(slots, 1, length)), limit.told)
end

-- Writes what has changed, and replies.
local function finish(status, limits)
    local reply, length = { status, now }, 2
    for number = 1, #limits do
        local limit = limits[number]
        local full = full_at(limit)
        -- However soon it is full again: otherwise each check until then would find a full bucket, and nothing would be limited.
        if limit.changed then
            write(limit, full)
        end
        reply[length + 1], reply[length + 2], reply[length + 3] = limit.ver, limit.at, limit.owed
        reply[length + 4], reply[length + 5], reply[length + 6] = limit.frac, limit.held, full
        length = length + 6
        if by_plan then
            length = length + 1
            reply[length] = limit.reserved
        end
    end
    return reply
end

local limits = {}
local values = call('MGET', unpack(KEYS, 2))
for number = 1, operation == LEASE and 1 or #KEYS - 1 do
    local limit = load(number, values[number])
    if not by_plan then
        heal(limit)
    end
    catch_up(limit)
    -- A limit that began empty is written even if the take is denied: the process learns when it will be full, and would take it
    -- for lost again if it were missing then. A full one is as good as missing.
    if not limit.stored and limit.owed == 0 then
        limit.changed = false
    end
    limits[number] = limit
end

if operation == LEASE then
    -- The functions of leases stand in here, because a function takes time to make.

    -- Adds leased tokens to the slot of this end, and returns the end at which they are counted.
    local function hold(limit, slot_end, count)
        limit.held = limit.held + count
        local ends, counts = limit.ends, limit.counts
        -- Mostly the last one.
        local slot = #ends + 1
        while slot > 1 and ends[slot - 1] >= slot_end do
            slot = slot - 1
        end
        if not ends[slot] and #ends == SLOTS then
            slot = SLOTS
            ends[slot] = slot_end
        elseif ends[slot] ~= slot_end and #ends < SLOTS then
            table.insert(ends, slot, slot_end)
            table.insert(counts, slot, 0)
        end
        counts[slot] = counts[slot] + count
        return ends[slot]
    end

    -- Takes leased tokens out of the slot of this end. Returns false if there are no such tokens.
    local function release(limit, slot_end, count)
        for slot = #limit.ends, 1, -1 do
            if limit.ends[slot] == slot_end and limit.counts[slot] >= count then
                limit.counts[slot] = limit.counts[slot] - count
                limit.held = limit.held - count
                if limit.counts[slot] == 0 then
                    table.remove(limit.ends, slot)
                    table.remove(limit.counts, slot)
                end
                return true
            end
        end
        return count == 0
    end

    local function finish_lease(limit, seq, granted, kept, length)
        local reply = finish(DONE, { limit })
        reply[9], reply[10], reply[11], reply[12], reply[13] = seq, granted, kept, length, limit.held - limit.lost
        return reply
    end

    -- The most tokens that all known holders may have now, and the length of a lease in µs: M and V beside a phantom holder.
    local function lease_terms(limit)
        if limit.lost == 0 then
            return limit.hold, lease
        end
        local rest = limit.burst - limit.hold
        local most = min(limit.hold, floor(rest / 2))
        return most, limit.p > 0 and min(lease, floor((rest - most) * limit.q / limit.p)) or lease
    end

    -- The arguments of a lease beyond those of its limit follow them: seq, ack, unspent, back. `amount` is what the holder wants.
    local function run_lease(limit, value)
        local key = KEYS[3]
        local seq, ack, unspent, back = ARGV[15] + 0, ARGV[16] + 0, ARGV[17] + 0, ARGV[18] + 0

        -- What the holder has by the server's count: 0 for one that is unknown, so that what it has left counts as spent.
        local count, charged = 0, 0
        local numbers = numbers_of(value, OF_HOLDER, OF_HOLDER)
        if numbers then
            local gen, last_seq, last_ack, granted, kept, slot_end, length, charge = unpack(numbers)
            if seq == last_seq and gen == limit.gen then
                -- The same request again: nothing is booked again.
                return finish_lease(limit, seq, granted, kept, length)
            elseif seq <= last_seq then
                return { STALE, now }
            end
            local applied, unapplied = ack == last_seq, ack == last_ack and ack ~= last_seq
            if gen == limit.gen and (applied or unapplied) and release(limit, slot_end, kept + granted) then
                count = kept + granted
                if unapplied then
                    -- The response was lost. The holder will never apply it, so its grant goes back into the bucket.
                    limit.owed = limit.owed - granted
                    count, charged = kept, charge
                end
            end
        end

        if unspent + back > count then
            unspent, back = 0, 0
        end
        limit.owed = limit.owed - back
        local most, length = lease_terms(limit)
        local slot_end = lease_end(limit.at, length)
        if unspent > 0 then
            slot_end = hold(limit, slot_end, unspent)
        end
        limit.charge = max(0, limit.charge - charged)
        settle(limit)

        local granted = max(0, min(limit.amount, limit.burst - limit.owed, most - (limit.held - limit.lost)))
        if granted > 0 then
            limit.owed = limit.owed + granted
            slot_end = hold(limit, slot_end, granted)
        end
        limit.changed = true
        -- Stored for a whole lease, however short this one is: until then the same request may arrive again.
        local record = struct.pack('<B' .. string.rep('d', OF_HOLDER), LAYOUT,
            limit.gen, seq, ack, granted, unspent, slot_end, length, limit.charge + charged)
        set(key, record, max(slot_end, lease_end(limit.at, lease)))
        return finish_lease(limit, seq, granted, unspent, length)
    end

    return run_lease(limits[1], values[2])
end

if operation ~= TAKE and not by_plan then
    for number = 1, #limits do
        local limit = limits[number]
        limit.owed, limit.frac, limit.changed = limit.held, 0, true
    end
    return finish(DONE, limits)
end

-- From all or from none.
local status = DONE
for number = 1, #limits do
    local limit = limits[number]
    settle(limit)
    if limit.amount > 0 and limit.owed + limit.amount > limit.burst then
        status = DENIED
    end
end
for number = 1, #limits do
    local limit = limits[number]
    if status == DONE and limit.amount > 0 then
        limit.owed, limit.changed = limit.owed + limit.amount, true
    end
    if by_plan then
        local room = max(0, limit.most - limit.current - limit.before)
        limit.reserved = status == DONE and min(limit.count, room) or 0
        limit.current = limit.current + limit.reserved
    end
end
return finish(status, limits)
