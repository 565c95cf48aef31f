// SPDX-License-Identifier: Apache-2.0
#include "mpi.hpp"

#include <unistd.h>

// The C interface alone: the one for C++ was removed from MPI, and its library need not be there.
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include <csignal>
#include <cstdlib>
#include <limits>
#include <string_view>
#include <system_error>

#include "sluice/base/error.hpp"
#include "sluice/error_report.hpp"

namespace sluice::app::mpi {
namespace {

class mpi_category final : public std::error_category {
public:
    const char* name() const noexcept override { return "mpi"; }
    std::string message(int code) const override {
        char text[MPI_MAX_ERROR_STRING] = {};
        int length = 0;
        if (MPI_Error_string(code, text, &length) != MPI_SUCCESS) return "error " + std::to_string(code);
        return {text, static_cast<std::size_t>(length)};
    }
};

void check(int code, std::string_view call) {
    static const mpi_category category;
    if (code != MPI_SUCCESS) throw error({code, category}, std::string(call) + " failed", {"mpi"});
}

// During its lifetime, ends the process after some time, wherever it hangs.
class time_limit {
public:
    explicit time_limit(std::chrono::seconds limit) : before_(std::signal(SIGALRM, end_process)) {
        ::alarm(static_cast<unsigned>(limit.count()));
    }
    time_limit(const time_limit&) = delete;  // there is one alarm
    time_limit& operator=(const time_limit&) = delete;
    ~time_limit() {
        ::alarm(0);
        std::signal(SIGALRM, before_);
    }

private:
    static void end_process(int) {
        constexpr std::string_view why = "a rank did not start or end within the time limit (--rank-timeout): it hangs";
        write_error_from_handler(why, "", failed);
        std::_Exit(failed);
    }

    void (*before_)(int);
};

int int_from(std::size_t bytes) {
    if (bytes > static_cast<std::size_t>(std::numeric_limits<int>::max())) {
        throw error(errc::invalid_argument, std::to_string(bytes) + " bytes are too many for one message", {"mpi"});
    }
    return static_cast<int>(bytes);
}

}  // namespace

struct request::handle {
    MPI_Request in_flight = MPI_REQUEST_NULL;
};

void request::deleter::operator()(handle* each) const noexcept { delete each; }

bool request::is_done() {
    int done = 0;
    check(MPI_Test(&handle_->in_flight, &done, MPI_STATUS_IGNORE), "MPI_Test");
    return done != 0;
}

session::session(std::chrono::seconds limit) : limit_(limit) {
    const time_limit start(limit_);
    int provided = MPI_THREAD_SINGLE;
    check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided), "MPI_Init_thread");
    check(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    if (provided < MPI_THREAD_FUNNELED) {
        throw error(errc::unsupported, "this MPI does not support threads (MPI_THREAD_FUNNELED)", {"mpi"});
    }
    check(MPI_Comm_rank(MPI_COMM_WORLD, &rank_), "MPI_Comm_rank");
    check(MPI_Comm_size(MPI_COMM_WORLD, &size_), "MPI_Comm_size");
    char name[MPI_MAX_PROCESSOR_NAME] = {};
    int length = 0;
    check(MPI_Get_processor_name(name, &length), "MPI_Get_processor_name");
    host_.assign(name, static_cast<std::size_t>(length));
}

session::~session() {
    const time_limit end(limit_);
    MPI_Finalize();
}

request session::send(int to, int tag, std::span<const std::byte> bytes) const {
    std::unique_ptr<request::handle, request::deleter> made(new request::handle);
    check(MPI_Isend(bytes.data(), int_from(bytes.size()), MPI_BYTE, to, tag, MPI_COMM_WORLD, &made->in_flight),
          "MPI_Isend");
    return request(std::move(made));
}

std::optional<arrival> session::probe() const {
    int is_there = 0;
    MPI_Status status;
    check(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &is_there, &status), "MPI_Iprobe");
    if (is_there == 0) return std::nullopt;
    int bytes = 0;
    check(MPI_Get_count(&status, MPI_BYTE, &bytes), "MPI_Get_count");
    return arrival{status.MPI_SOURCE, status.MPI_TAG, static_cast<std::size_t>(bytes)};
}

request session::receive(const arrival& what, std::span<std::byte> into) const {
    std::unique_ptr<request::handle, request::deleter> made(new request::handle);
    check(
        MPI_Irecv(into.data(), int_from(into.size()), MPI_BYTE, what.from, what.tag, MPI_COMM_WORLD, &made->in_flight),
        "MPI_Irecv");
    return request(std::move(made));
}

request session::broadcast(std::span<std::byte> bytes) const {
    std::unique_ptr<request::handle, request::deleter> made(new request::handle);
    check(MPI_Ibcast(bytes.data(), int_from(bytes.size()), MPI_BYTE, 0, MPI_COMM_WORLD, &made->in_flight),
          "MPI_Ibcast");
    return request(std::move(made));
}

void session::abort(int status) const noexcept {
    MPI_Abort(MPI_COMM_WORLD, status);
    std::_Exit(status);  // should MPI come back
}

}  // namespace sluice::app::mpi
