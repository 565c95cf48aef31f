// SPDX-License-Identifier: Apache-2.0
#include "runtime/staging_pool.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <span>

#include "runtime/usable_cores.hpp"
#include "sluice/base/error.hpp"
#include "sluice/runtime/device.hpp"
#include "sluice/runtime/row_copy.hpp"

namespace sluice::detail {
namespace {

// A copy engine takes 76 us for a chunk, so the cost of a command, its mark and a wake-up (a few us) is small. Filling
// the first chunk takes about as long, and then the engine starts.
constexpr std::size_t chunk_bytes = std::size_t{4} << 20;
// Some are being read, some filled, some are in between: 32 MiB, which stay in the host's cache.
constexpr std::size_t chunks_an_upload = 8;
// Up to this size an upload is copied past the caches. A larger one fills each chunk more than once, so the chunks stay
// in the caches, and the copy engine reads them from there: 50 GB/s. Past the caches it is 37, since each byte is read
// from the memory twice and written once. A smaller one finds few of the chunks in the caches, and a core reads each
// line before it writes to it: 8 MiB take twice as long through the caches.
constexpr std::size_t most_bytes_past_caches = std::size_t{64} << 20;
// With two chunks, filling and reading still overlap.
constexpr std::size_t fewest_chunks_an_upload = 2;
// What a device may pin: 128 MiB. So four uploads at the same time, or four in a row without a wait, have all chunks.
constexpr std::size_t most_chunks = 32;
// A small upload is split into more parts than whole chunks, so that the copy engine starts early; no part is smaller
// than this.
constexpr std::size_t smallest_part_bytes = std::size_t{512} << 10;
// The same where the data has its own block.
constexpr std::size_t most_block_parts = 16;
constexpr std::size_t smallest_block_part_bytes = std::size_t{256} << 10;
// Up to this size one thread copies a block: waking others would take as long.
constexpr std::size_t most_bytes_alone = std::size_t{1} << 20;

// The size of the parts of a block. Where one thread copies, a command takes as long as copying 40 KiB. So there are
// two parts, and the first is the larger one: while it is read, the second is filled, and when that is full, little is
// left to be read.
std::size_t block_part_bytes(std::size_t bytes) noexcept {
    const std::size_t share =
        bytes <= most_bytes_alone ? bytes / 4 * 3 : (bytes + most_block_parts - 1) / most_block_parts;
    return std::max((share + 4095) / 4096 * 4096, smallest_block_part_bytes);
}
// How long to wait for a chunk of another upload before the driver copies from pageable memory.
constexpr auto longest_wait = std::chrono::milliseconds(5);
// More threads would not use more memory channels: eight fill memory almost as fast as the copy engine reads it.
constexpr std::size_t most_copying_threads = 8;

copy_team::rows rows_of(const copy_command& what) noexcept {
    return {what.source, what.bytes, what.rows.count == 1 ? what.bytes : what.rows.source_pitch};
}

// How many bytes from `begin` on go into one command: whole rows, or a piece of one. Both count packed bytes.
std::size_t bytes_from(const copy_command& what, std::size_t begin, std::size_t most) noexcept {
    const std::size_t in_row = begin % what.bytes;
    if (in_row != 0 || most < what.bytes) return std::min(most, what.bytes - in_row);
    return std::min(most / what.bytes * what.bytes, copied_bytes(what) - begin);
}

// Copies these bytes, as bytes_from gave them, from packed memory.
copy_command part_of(const copy_command& what, const void* packed, std::size_t begin, std::size_t bytes) noexcept {
    auto* const to = static_cast<std::byte*>(what.destination) + begin / what.bytes * what.rows.destination_pitch +
                     begin % what.bytes;
    if (bytes <= what.bytes) return {to, packed, bytes, copy_direction::host_to_device, {}};
    return {to,
            packed,
            what.bytes,
            copy_direction::host_to_device,
            {},
            {},
            {bytes / what.bytes, what.bytes, what.rows.destination_pitch}};
}

std::size_t helpers() noexcept { return std::min(usable_cores(), most_copying_threads) - 1; }

}  // namespace

// One upload. Each of its chunks is in one of three lists: `idle_` (to be filled), `filling_` (the team fills it),
// `sent_` (a copy command reads it).
class staging_pool::transfer {
public:
    transfer(staging_pool& pool, stream on, const command_info& info, storage& to, const copy_command& what)
        : pool_(pool),
          on_(on),
          info_(info),
          to_(to),
          what_(what),
          bytes_(copied_bytes(what)),
          part_bytes_(std::clamp((bytes_ / chunks_an_upload + 4095) / 4096 * 4096, smallest_part_bytes, chunk_bytes)),
          caches_(bytes_ > most_bytes_past_caches ? copy_team::caches::are_used : copy_team::caches::are_passed),
          copying_(pool.begin_upload()) {}
    transfer(const transfer&) = delete;  // the team points to its pieces
    transfer& operator=(const transfer&) = delete;
    ~transfer() {
        copying_.reset();  // from here on no thread fills any of them
        idle_.splice(idle_.end(), filling_);
        pool_.give_back(idle_);
        pool_.give_back(sent_);
        pool_.end_upload();
    }

    // False: no chunk was available to begin with.
    bool run() {
        while (begun_ < bytes_ || !filling_.empty()) {
            if (begun_ < bytes_ && ensure_idle()) {
                fill();
            } else if (!filling_.empty()) {
                send();
            } else if (!sent_.empty()) {
                wait(sent_.front());
            } else if (!ensure_first()) {
                return false;
            }
        }
        return true;
    }

private:
    std::size_t held() const noexcept { return idle_.size() + filling_.size() + sent_.size(); }

    bool make() {
        is_short_ = is_short_ || !pool_.make(idle_);
        return !is_short_;
    }

    // Ensures an idle chunk without waiting for the device; returns whether there is one.
    bool ensure_idle() {
        while (!sent_.empty() && is_ready(sent_.front())) {
            forget_reader(sent_.front());
            idle_.splice(idle_.end(), sent_, sent_.begin());
        }
        const std::size_t share = pool_.share();
        for (std::list<chunk> over; held() > share && !idle_.empty(); pool_.give_back(over)) {
            over.splice(over.end(), idle_, idle_.begin());
        }
        if (!idle_.empty()) return true;
        return held() < share && held() != 0 && (pool_.take_ready(idle_) || make());
    }

    // Gets the first chunk; returns whether there is one.
    bool ensure_first() {
        const auto until = clock::now() + longest_wait;
        for (bool is_last = false;;) {
            if (pool_.take_ready(idle_) || make()) return true;
            // Waiting for this chunk is safe: our stream reaches its command before ours.
            if (pool_.take_read_by(on_.queue(), sent_)) return true;
            if (is_last) return false;
            is_last = !pool_.await_return(until);
        }
    }

    void fill() {
        filling_.splice(filling_.end(), idle_, idle_.begin());
        chunk& next = filling_.back();
        next.offset = begun_;
        next.bytes = bytes_from(what_, begun_, part_bytes_);
        next.filling = copy_team::piece(next.memory->data(), rows_of(what_), next.offset, next.bytes, caches_);
        begun_ += next.bytes;
        copying_->add(next.filling);
    }

    void send() {
        chunk& full = filling_.front();
        copying_->finish(full.filling);
        const std::array accesses{memory_access{full.memory.get(), access_mode::read},
                                  memory_access{&to_, access_mode::write}};
        const ticket number = on_.copy({info_.name, accesses, info_.location},
                                       part_of(what_, full.memory->data(), full.offset, full.bytes));
        full.reader = on_.point(number);
        try {
            full.read = on_.mark();
        } catch (...) {
            std::list<chunk> untold;  // without a mark its last use cannot be found
            untold.splice(untold.end(), filling_, filling_.begin());
            pool_.drop(untold);
            throw;
        }
        sent_.splice(sent_.end(), filling_, filling_.begin());
    }

    static void wait(chunk& sent) {
        try {
            sent.read->wait();
        } catch (...) {
            sent.memory->await_all_uses();  // throws the device's first cause
            throw;
        }
        forget_reader(sent);
    }

    staging_pool& pool_;
    stream on_;
    const command_info& info_;
    storage& to_;
    const copy_command& what_;
    const std::size_t bytes_;
    const std::size_t part_bytes_;  // how much goes into a chunk
    const copy_team::caches caches_;
    std::size_t begun_ = 0;
    bool is_short_ = false;  // of pinned memory
    std::list<chunk> idle_, filling_, sent_;
    std::optional<copy_team::job> copying_;
};

staging_pool::staging_pool(device& owner) : owner_(owner) {}

staging_pool::~staging_pool() { close(); }

bool staging_pool::upload(stream on, const command_info& info, storage& to, const copy_command& what) {
    return transfer(*this, on, info, to, what).run();
}

void staging_pool::upload_through(storage& block, stream on, const command_info& info, storage& to,
                                  const copy_command& what) {
    struct under_way {
        staging_pool& pool;
        copy_team& team;
        explicit under_way(staging_pool& of) : pool(of), team(of.begin_upload()) {}
        under_way(const under_way&) = delete;  // it ends what it began
        under_way& operator=(const under_way&) = delete;
        ~under_way() { pool.end_upload(); }
    } const upload(*this);
    const std::size_t bytes = copied_bytes(what);
    const std::size_t part_bytes = block_part_bytes(bytes);
    // Parts of whole rows have at least half of part_bytes, and a row that is cut has at most one part that is smaller.
    constexpr std::size_t most_parts = 2 * most_block_parts;
    std::array<copy_team::piece, most_parts> parts;
    std::array<std::size_t, most_parts + 1> begins{};
    std::size_t count = 0;
    for (; begins[count] < bytes; ++count) {
        const std::size_t at = begins[count];
        begins[count + 1] = at + bytes_from(what, at, part_bytes);
        parts[count] = {static_cast<char*>(block.data()) + at, rows_of(what), at, begins[count + 1] - at};
    }
    copy_team::job copying(upload.team);  // declared after its pieces, so destroyed before them
    const auto all = std::span(parts).first(count);
    if (bytes > most_bytes_alone) copying.add(all);
    const std::array accesses{memory_access{&block, access_mode::read}, memory_access{&to, access_mode::write}};
    for (std::size_t i = 0; i < count; ++i) {
        const std::size_t at = begins[i], size = begins[i + 1] - at;
        char* const packed = static_cast<char*>(block.data()) + at;
        if (bytes > most_bytes_alone) {
            copying.finish(parts[i]);
        } else {
            copy_team::pack(packed, rows_of(what), at, size);
        }
        on.copy({info.name, accesses, info.location}, part_of(what, packed, at, size));
    }
}

bool staging_pool::is_ready(const chunk& asked) noexcept {
    const command_queue* const reader = asked.reader.queue;
    return reader == nullptr || reader->passed() >= asked.reader.upto || asked.read->has_passed();
}

void staging_pool::forget_reader(chunk& passed) noexcept {
    passed.reader = {};
    passed.read.reset();
}

bool staging_pool::take_ready(std::list<chunk>& into) noexcept {
    const std::lock_guard lock(mutex_);
    const auto found = std::find_if(chunks_.begin(), chunks_.end(), &is_ready);
    if (found == chunks_.end()) return false;
    into.splice(into.begin(), chunks_, found);
    forget_reader(into.front());
    return true;
}

bool staging_pool::take_read_by(const command_queue& reader, std::list<chunk>& into) noexcept {
    const std::lock_guard lock(mutex_);
    const auto found =
        std::find_if(chunks_.begin(), chunks_.end(), [&](const chunk& each) { return each.reader.queue == &reader; });
    if (found == chunks_.end()) return false;
    into.splice(into.begin(), chunks_, found);
    return true;
}

bool staging_pool::make(std::list<chunk>& into) {
    std::list<chunk> made(1);
    {
        const std::lock_guard lock(mutex_);
        if (made_ == most_chunks) return false;
        ++made_;
    }
    try {
        made.front().memory = owner_.host_pool().allocate(chunk_bytes, nullptr, {"upload"});
        owner_.host_pool().note_own(*made.front().memory);
    } catch (const out_of_memory&) {
        drop(made);
        return false;
    } catch (...) {
        drop(made);
        throw;
    }
    into.splice(into.begin(), made);
    return true;
}

void staging_pool::give_back(std::list<chunk>& chunks) noexcept {
    if (chunks.empty()) return;
    {
        const std::lock_guard lock(mutex_);
        // Ready chunks come first.
        chunks_.splice(is_ready(chunks.front()) ? chunks_.begin() : chunks_.end(), chunks);
    }
    returned_.notify_all();
}

bool staging_pool::await_return(clock::time_point until) noexcept {
    std::unique_lock lock(mutex_);
    return uploads_ > 1 && returned_.wait_until(lock, until) == std::cv_status::no_timeout;
}

void staging_pool::drop(std::list<chunk>& chunks) noexcept {
    {
        const std::lock_guard lock(mutex_);
        made_ -= chunks.size();
    }
    chunks.clear();
}

std::size_t staging_pool::share() noexcept {
    const std::lock_guard lock(mutex_);
    return std::clamp(most_chunks / uploads_, fewest_chunks_an_upload, chunks_an_upload);
}

copy_team& staging_pool::begin_upload() {
    const std::lock_guard lock(mutex_);
    owner_.throw_if_refusing();  // with the lock held: close() waits for each upload that passes this check
    if (!team_) team_ = std::make_unique<copy_team>(helpers());
    ++uploads_;
    return *team_;
}

void staging_pool::end_upload() noexcept {
    const std::lock_guard lock(mutex_);
    if (--uploads_ == 0) idle_.notify_all();
}

void staging_pool::trim() noexcept {
    std::list<chunk> dropped;
    {
        const std::lock_guard lock(mutex_);
        dropped.splice(dropped.end(), chunks_);
    }
    drop(dropped);
}

void staging_pool::close() noexcept {
    std::unique_ptr<copy_team> team;
    {
        std::unique_lock lock(mutex_);
        idle_.wait(lock, [this] { return uploads_ == 0; });
        team = std::move(team_);
    }
    trim();
}

}  // namespace sluice::detail
