// SPDX-License-Identifier: Apache-2.0
// staging_pool: uploads pageable host memory to a device that does not share the host's memory. The data goes through
// chunks of pinned memory: a team of threads fills chunks while the device still copies from those filled before.
//
// The driver is slower: its own copy from pageable memory reached 10.1 GB/s on an H200 machine, where a team of eight
// fills pinned memory at 50 and the copy engine reads it at 55.
//
// Every chunk becomes one copy command, in stream order, which names the chunk as read. A mark after the command shows
// when the chunk can be filled again. A bounded number of chunks stay in the pool until trim() or close(); close() must
// release them, because they refer to memory of the device and would keep it alive for ever.
//
// Thread safety: many threads may upload at the same time. An upload waits for its own chunks and for those of others
// on its own stream. For any other chunk it waits only a short time, so that a blocked stream cannot block another.
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
    staging_pool(const staging_pool&) = delete;  // a device owns it
    staging_pool& operator=(const staging_pool&) = delete;
    ~staging_pool();

    // Carries out a copy from host memory to `to`, as commands of the stream's submission; the host memory is not
    // needed afterwards. The copy may have many rows: each command copies whole rows, or a piece of one. Blocks while
    // the host copies; when the data is larger than all chunks together, also until the stream has reached the rest.
    // Returns false when no pinned memory is available: then nothing was done. Throws what submitting throws; then the
    // contents of `to` are undefined.
    bool upload(stream on, const command_info& info, storage& to, const copy_command& what);

    // The same in parts through the caller's pinned block, which is as large as the data: the copy engine reads the
    // first part while the others are filled. Blocks only while the host copies.
    void upload_through(storage& block, stream on, const command_info& info, storage& to, const copy_command& what);

    // Returns the chunks that no upload uses to the device's pool.
    void trim() noexcept;
    // Waits for the uploads in flight, whose commands the device refuses by now; then does the same and ends the
    // threads.
    void close() noexcept;

private:
    using clock = std::chrono::steady_clock;
    struct chunk {
        storage_ref memory = {};
        copy_team::piece filling = {};
        std::size_t offset = 0;  // of its part of the upload
        std::size_t bytes = 0;
        // The command that reads it, and the mark after that command; null when there is none.
        stream_point reader = {};
        std::unique_ptr<timed_mark> read = {};
    };
    class transfer;  // one upload

    static bool is_ready(const chunk& asked) noexcept;
    static void forget_reader(chunk& passed) noexcept;
    // These three move a chunk to the front of `into` and return whether there was one. A chunk that can be filled
    // immediately:
    bool take_ready(std::list<chunk>& into) noexcept;
    // A new chunk, within the pool's limit. Throws std::bad_alloc and what the driver throws.
    bool make(std::list<chunk>& into);
    // A chunk that a command of this queue still reads.
    bool take_read_by(const command_queue& reader, std::list<chunk>& into) noexcept;
    void give_back(std::list<chunk>& chunks) noexcept;
    // Waits until an upload returns chunks. False when the time has passed, or there is no other upload.
    bool await_return(clock::time_point until) noexcept;
    // Returns the chunks to the device's pool, with their histories.
    void drop(std::list<chunk>& chunks) noexcept;
    // The number of chunks that each upload may have.
    std::size_t share() noexcept;
    copy_team& begin_upload();
    void end_upload() noexcept;

    device& owner_;
    std::mutex mutex_;
    std::condition_variable returned_;  // an upload has returned chunks
    std::condition_variable idle_;      // there are no uploads
    std::list<chunk> chunks_;           // chunks that no upload has; ready ones are put in front
    std::size_t made_ = 0;
    std::size_t uploads_ = 0;
    std::unique_ptr<copy_team> team_;
};

}  // namespace sluice::detail
