// SPDX-License-Identifier: Apache-2.0
// What a prepared network and a kept call do not do on a CPU device of one worker: allocate, lock, call the system. For
// every network of models/, each in a process of its own, where a filter of the kernel ends a run that calls the
// system. This executable counts allocations and locks.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "nn/support/memory_models.hpp"
#include "sluice/nn/network.hpp"
#include "sluice/nn/onnx.hpp"
#include "sluice/nn/safetensors.hpp"
#include "sluice/nn/session.hpp"
#include "sluice/runtime/runtime.hpp"
#include "sluice/runtime/scheduling_policy.hpp"
#include "sluice/runtime/sync.hpp"

namespace {
thread_local std::size_t allocations = 0, locks = 0;  // of this thread: others may still end what came before
}

// The C library's own functions, under the names that it has for those who replace them.
extern "C" {
void* __libc_malloc(std::size_t bytes);
void* __libc_calloc(std::size_t count, std::size_t bytes);
void* __libc_realloc(void* data, std::size_t bytes);
void* __libc_memalign(std::size_t alignment, std::size_t bytes);

void* malloc(std::size_t bytes) {
    ++allocations;
    return __libc_malloc(bytes);
}
void* calloc(std::size_t count, std::size_t bytes) {
    ++allocations;
    return __libc_calloc(count, bytes);
}
void* realloc(void* data, std::size_t bytes) {
    ++allocations;
    return __libc_realloc(data, bytes);
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
    ++allocations;
    return __libc_memalign(alignment, bytes);
}
int posix_memalign(void** data, std::size_t alignment, std::size_t bytes) {
    ++allocations;
    *data = __libc_memalign(alignment, bytes);
    return *data != nullptr ? 0 : 12;  // ENOMEM
}

int pthread_mutex_lock(pthread_mutex_t* mutex) {
    static const auto next = reinterpret_cast<int (*)(pthread_mutex_t*)>(dlsym(RTLD_NEXT, "pthread_mutex_lock"));
    ++locks;
    return next(mutex);
}
int pthread_rwlock_rdlock(pthread_rwlock_t* mutex) {
    static const auto next = reinterpret_cast<int (*)(pthread_rwlock_t*)>(dlsym(RTLD_NEXT, "pthread_rwlock_rdlock"));
    ++locks;
    return next(mutex);
}
int pthread_rwlock_wrlock(pthread_rwlock_t* mutex) {
    static const auto next = reinterpret_cast<int (*)(pthread_rwlock_t*)>(dlsym(RTLD_NEXT, "pthread_rwlock_wrlock"));
    ++locks;
    return next(mutex);
}
}

namespace sluice::nn::real_time_tests {
namespace {

// What a child found, in memory that it shares with its parent.
struct findings {
    std::size_t calls, allocations, locks;
    long system_call;  // -1: none
    bool is_right;
    char error[400];
};
findings* shared = nullptr;

void on_system_call(int, siginfo_t* info, void*) {
    shared->system_call = info->si_syscall;
    _exit(1);
}

// From here on each system call of this thread but the process's end is a signal. False where the kernel has no
// filters.
bool forbid_system_calls() {
    struct sigaction action{};
    action.sa_sigaction = on_system_call;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGSYS, &action, nullptr);
    sock_filter rules[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                           BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 0, 1),
                           BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP)};
    const sock_fprog filter{static_cast<unsigned short>(std::size(rules)), rules};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

model read(const std::filesystem::path& path) {
    return path.extension() == ".onnx" ? load_onnx(path) : load_safetensors(path);
}

std::vector<std::size_t> shape_of(const value_info& of) {
    std::vector<std::size_t> shape;
    for (const dimension& each : *of.shape) shape.push_back(each.length.value_or(3));
    return shape;
}

// 100,000 calls of a short function, 1,000 of another one.
std::size_t calls_for(const std::function<void()>& call) {
    using clock = std::chrono::steady_clock;
    const auto start = clock::now();
    for (int i = 0; i < 10; ++i) call();
    return (clock::now() - start) / 10 < std::chrono::microseconds(100) ? 100'000 : 1'000;
}

enum class way { prepared, called };

// In the child. Returns whether the system's filter is there.
void try_network(const std::filesystem::path& path, way how) {
    runtime machine({.cpu_workers = 1, .cuda = false});
    single_stream on(machine.find("cpu:0"));
    const network made = sync(make_network(read(path)), on);
    std::vector<std::vector<float>> numbers;
    std::vector<any_tensor> given;
    std::vector<input_view> from;
    std::vector<input_shape> shapes;
    for (const value_info& each : made.inputs()) {
        const std::vector<std::size_t>& shape = shapes.emplace_back(input_shape{each.name, shape_of(each)}).shape;
        std::size_t size = 1;
        for (const std::size_t length : shape) size *= length;
        std::vector<float>& values = numbers.emplace_back(size);
        for (std::size_t i = 0; i < size; ++i) values[i] = static_cast<float>(i % 17) * 0.1f;
        given.emplace_back(values, shape);
    }
    for (std::size_t i = 0; i < numbers.size(); ++i) from.emplace_back(numbers[i], given[i].shape());
    const std::vector<any_tensor> expected = sync(made.run(given), on);
    prepared fast = made.prepare(shapes);
    for (std::size_t i = 0; i < numbers.size(); ++i) std::ranges::copy(numbers[i], fast.input<float>(i).begin());
    std::vector<std::vector<std::byte>> room;
    std::vector<output_view> to;
    for (const any_tensor& each : expected) {
        room.emplace_back(each.size_bytes());
        to.emplace_back(each.type(), room.back().data(), each.shape());
    }
    const std::function<void()> run = [&] { fast.run(); };
    const std::function<void()> call = [&] { made(from, to); };
    const std::function<void()>& tried = how == way::prepared ? run : call;
    const std::size_t calls = calls_for(tried);
    const std::size_t allocated = allocations, locked = locks;
    if (!forbid_system_calls()) std::strcpy(shared->error, "this kernel has no filters of system calls");
    for (std::size_t i = 0; i < calls; ++i) tried();
    shared->calls = calls;
    shared->allocations = allocations - allocated;
    shared->locks = locks - locked;
    shared->is_right = true;
    for (std::size_t i = 0; i < expected.size(); ++i) {
        const std::byte* const at = how == way::prepared ? fast.output(i).data() : room[i].data();
        if (std::memcmp(at, expected[i].bytes().data(), expected[i].size_bytes()) != 0) shared->is_right = false;
    }
    _exit(0);  // nothing may be destroyed: that calls the system
}

findings found_in(const std::filesystem::path& path, way how) {
    *shared = {.calls = 0, .allocations = 0, .locks = 0, .system_call = -1, .is_right = false, .error = {}};
    const pid_t child = fork();
    if (child == 0) {
        try {
            try_network(path, how);
        } catch (const std::exception& failure) {
            std::strncpy(shared->error, failure.what(), sizeof(shared->error) - 1);
        }
        _exit(2);
    }
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    if (!WIFEXITED(status)) std::strcpy(shared->error, "the process was ended by a signal");
    return *shared;
}

std::vector<std::filesystem::path> all_networks() {
    std::vector<std::filesystem::path> found;
    for (const auto& each : std::filesystem::directory_iterator(SLUICE_SOURCE_DIR "/models")) {
        // The other file of weights is no network by itself.
        const bool is_network = each.path().extension() == ".onnx" || each.path().filename() == "digits.safetensors";
        if (is_network) found.push_back(each.path());
    }
    std::ranges::sort(found);
    return found;
}

class real_time : public ::testing::TestWithParam<way> {};

TEST_P(real_time, runs_allocate_nothing_take_no_lock_and_do_not_call_the_system) {
    void* const memory = mmap(nullptr, sizeof(findings), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    shared = static_cast<findings*>(memory);
    const std::vector<std::filesystem::path> networks = all_networks();
    ASSERT_GE(networks.size(), 6U);
    for (const std::filesystem::path& each : networks) {
        SCOPED_TRACE(each.filename());
        const findings found = found_in(each, GetParam());
        EXPECT_STREQ(found.error, "");
        EXPECT_EQ(found.system_call, -1) << "the number of a system call";
        EXPECT_GE(found.calls, 1'000U);
        EXPECT_EQ(found.allocations, 0U);
        EXPECT_EQ(found.locks, 0U);
        EXPECT_TRUE(found.is_right);
    }
}

INSTANTIATE_TEST_SUITE_P(ways, real_time, ::testing::Values(way::prepared, way::called),
                         [](const auto& its) { return its.param == way::prepared ? "prepared" : "called"; });

// A step of a session, whose state changes between two buffers, does what a run of the prepared network does: nothing
// of this, or what a primitive of oneDNN does.
TEST(real_time_sessions, allocate_and_lock_as_little_as_prepared_networks) {
    runtime machine({.cpu_workers = 1, .cuda = false});
    single_stream on(machine.find("cpu:0"));
    const std::vector<float> x = test_support::some_numbers(6, 1);
    const input_view row(std::span<const float>(x).first(3), {1, 1, 3}), columns(x, {1, 2, 3});
    const std::pair<model, input_view> networks[] = {{test_support::recurrent_model("LSTM"), row},
                                                     {test_support::recurrent_model("GRU", 1), row},
                                                     {test_support::causal_convolution(), columns}};
    for (const auto& [from, one] : networks) {
        const network made = sync(make_network(from), on);
        session s(made);
        const std::array given = {one};
        const auto counted = [](auto&& call) {
            for (int i = 0; i < 4; ++i) call();
            const std::size_t allocated = allocations, locked = locks;
            for (int i = 0; i < 1000; ++i) call();
            return std::pair(allocations - allocated, locks - locked);
        };
        const auto of_session = counted([&] { s.step(given); });
        std::vector<input_shape> shapes = {{"x", {one.form().shape().begin(), one.form().shape().end()}}};
        const session_state state = s.state();
        for (const auto& [name, value] : state) shapes.push_back({name, value.shape()});
        prepared fast = made.prepare(shapes);
        const auto of_prepared = counted([&] { fast.run(); });
        EXPECT_LE(of_session.first, of_prepared.first) << from.path;
        EXPECT_LE(of_session.second, of_prepared.second) << from.path;
        if (from.path == "causal.onnx") continue;
        EXPECT_EQ(of_session.first, 0U) << from.path;
        EXPECT_EQ(of_session.second, 0U) << from.path;
    }
}

// What the test above would miss if it counted nothing.
TEST(real_time_counts, see_an_allocation_and_a_lock) {
    const std::size_t allocated = allocations, locked = locks;
    std::vector<int> made(1000);
    std::mutex mutex;
    mutex.lock();
    mutex.unlock();
    EXPECT_GE(allocations - allocated, 1U);
    EXPECT_GE(locks - locked, 1U);
    EXPECT_EQ(made.size(), 1000U);
}

TEST(real_time_counts, see_a_system_call) {
    void* const memory = mmap(nullptr, sizeof(findings), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    shared = static_cast<findings*>(memory);
    shared->system_call = -1;
    const pid_t child = fork();
    if (child == 0) {
        if (forbid_system_calls()) syscall(SYS_getppid);
        _exit(0);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(shared->system_call, SYS_getppid);
}

}  // namespace
}  // namespace sluice::nn::real_time_tests
