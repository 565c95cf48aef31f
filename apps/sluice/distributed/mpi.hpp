// SPDX-License-Identifier: Apache-2.0
// MPI, called in this one place (mpi.cpp): every failure of a call is an error that names it.
//
// Thread safety: none. Only the main thread may make a session and use what belongs to it (MPI_THREAD_FUNNELED).
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>

namespace sluice::app::mpi {

// A transfer in flight. The memory that it sends or fills must stay until it is done: a request that is dropped before
// would leave MPI with freed memory. A caller that cannot wait for it ends the process (session::abort).
class request {
public:
    // Whether it is done. Does not block, and lets MPI advance all transfers in flight.
    bool is_done();

private:
    friend class session;
    struct handle;
    struct deleter {
        void operator()(handle* each) const noexcept;
    };
    explicit request(std::unique_ptr<handle, deleter> in_flight) : handle_(std::move(in_flight)) {}

    std::unique_ptr<handle, deleter> handle_;
};

// A message that has arrived and waits to be received.
struct arrival {
    int from;
    int tag;
    std::size_t bytes;
};

// This process's membership in the job that mpirun started; without mpirun, a job of one rank. No call but the
// constructor and the destructor blocks.
class session {
public:
    // Blocks until all ranks of the job are there. MPI waits for them, and in the destructor, with no limit of its own:
    // if it takes longer than `limit`, this process says so on standard error and ends, and mpirun ends the others.
    explicit session(std::chrono::seconds limit);
    session(const session&) = delete;  // once a process
    session& operator=(const session&) = delete;
    // Blocks until all ranks come here.
    ~session();

    int rank() const noexcept { return rank_; }
    int size() const noexcept { return size_; }
    const std::string& host() const noexcept { return host_; }

    request send(int to, int tag, std::span<const std::byte> bytes) const;
    std::optional<arrival> probe() const;
    request receive(const arrival& what, std::span<std::byte> into) const;
    // From rank 0 to all; each rank calls it with as many bytes.
    request broadcast(std::span<std::byte> bytes) const;
    // Ends all processes of the job, and this one at once: nothing is destroyed.
    [[noreturn]] void abort(int status) const noexcept;

private:
    std::chrono::seconds limit_;
    int rank_ = 0;
    int size_ = 1;
    std::string host_;
};

}  // namespace sluice::app::mpi
