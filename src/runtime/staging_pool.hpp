// staging_pool: how a device that does not share the host's memory gets data from pageable host memory: through chunks
// of pinned memory, which a team of threads fills while the device still copies from those filled before.
//
// Why not leave it to the driver: its own copy from pageable memory made 10.1 GB/s on an H200 machine, where a team of
// eight fills pinned memory at 50 and the copy engine reads it at 55.
//
// Every chunk becomes one copy command, in stream order, which names the chunk as read. A chunk is filled again when
// that command is over, which a mark behind it tells. The chunks stay with the pool, a bounded number of them, until
// trim() or close(): they refer to memory of the device, and so would keep it for ever.
//
// Thread safety: many threads may upload at the same time. An upload waits for its own chunks, for those of others on
// its own stream, and otherwise only a little while, so that no stream which is held can hold another.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <list>
#include <memory>
#include <mutex>

#include "runtime/copy_team.hpp"
#include "sluice/runtime/stream.hpp"

namespace sluice::detail {

class staging_pool {
public:
    explicit staging_pool(device& owner);
    staging_pool(const staging_pool&) = delete;  // a device's
    staging_pool& operator=(const staging_pool&) = delete;
    ~staging_pool();

    // Copies host memory to the front of `to`, on behalf of the stream's submission; `from` is not needed afterwards.
    // Blocks while the host copies, and where that is more than the chunks hold, until the stream has come to the rest.
    // False when there is no pinned memory to be had: then nothing was done. Throws what submitting throws; then the
    // contents of `to` are undefined.
    bool upload(stream& on, const command_info& info, storage& to, const void* from, std::size_t bytes);

    // Gives the chunks that nobody fills back to the device's pool.
    void trim() noexcept;
    // The same, and ends the threads, after the uploads under way: the device refuses their commands by now.
    void close() noexcept;

private:
    using clock = std::chrono::steady_clock;
    struct chunk {
        storage_ref memory = {};
        copy_team::piece filling = {};
        std::size_t offset = 0;  // of its part of the upload
        std::size_t bytes = 0;
        // The command that reads it, and the moment behind that; null when nobody does.
        stream_point reader = {};
        std::unique_ptr<timed_mark> read = {};
    };
    class transfer;  // one upload

    static bool is_ready(const chunk& asked) noexcept;
    static void forget_reader(chunk& passed) noexcept;
    // Moves a chunk that can be filled at once to the front of `into`, if there is one.
    bool take_ready(std::list<chunk>& into) noexcept;
    // Or a new one, while the pool may have more. Throws std::bad_alloc and what the driver throws.
    bool make(std::list<chunk>& into);
    // Or one that a command of this queue still reads.
    bool take_of(const command_queue& reader, std::list<chunk>& into) noexcept;
    void give_back(std::list<chunk>& chunks) noexcept;
    // False when it has waited long enough, or nobody has any.
    bool await_return(clock::time_point until) noexcept;
    // Leaves them to the device's pool, with their histories.
    void drop(std::list<chunk>& chunks) noexcept;
    // How many chunks each of the uploads may have.
    std::size_t share() noexcept;
    copy_team& begin_upload();
    void end_upload() noexcept;

    device& owner_;
    std::mutex mutex_;
    std::condition_variable returned_;  // chunks, by uploads
    std::condition_variable idle_;      // no uploads
    std::list<chunk> chunks_;           // that no upload has, the longest unused first
    std::size_t made_ = 0;
    std::size_t uploads_ = 0;
    std::unique_ptr<copy_team> team_;
};

}  // namespace sluice::detail
