// SPDX-License-Identifier: Apache-2.0
// Memory of others on a device that has faulted: what no command uses any more is released as ever; what unfinished
// commands may still use is released when the runtime is closed.
#include <array>
#include <optional>

#include "conformance/support/awaiting.hpp"
#include "conformance/support/lent_memory.hpp"
#include "faults/faulty_backend.hpp"
#include "sluice/kernels/elementwise.hpp"
#include "sluice/runtime/adopt.hpp"
#include "sluice/runtime/dlpack.hpp"

namespace sluice::faults::foreign_memory_fault_tests {
namespace {

using conformance::failure_of;
using conformance::release_count;

constexpr std::size_t size = 64;
struct alignas(256) program_memory {
    std::array<unsigned, size> values{};
};

class foreign_memory_faults : public testing::Test {
protected:
    tensor<unsigned> adopted() {
        return adopt(fakes->on, memory.values.data(), {size}, [this](unsigned*) { released.add(); });
    }
    static void clear(stream on, const tensor<unsigned>& x) {
        const std::array accesses{memory_access{x.memory(), access_mode::write}};
        on.fill({"clear", accesses}, {x.device_data(), 0, x.size_bytes()});
    }
    void notice() {
        EXPECT_NE(failure_of([&] { a.host_call({"next"}, {[] {}}); }), "");
    }
    // Everything that the completion thread has to do has been done.
    void settle() {
        release_count posted;
        struct item final : work_item {
            explicit item(release_count& to)
                : work_item([](work_item& self) noexcept { static_cast<item&>(self).done.add(); }), done(to) {}
            release_count& done;
        };
        std::array<std::optional<item>, 3> all;
        for (int i = 0; i < 3; ++i) {
            fakes->on.service().post(all[static_cast<std::size_t>(i)].emplace(posted));
            ASSERT_TRUE(posted.reaches(i + 1));
        }
    }

    program_memory memory;
    release_count released;
    std::optional<faulty_runtime> fakes{std::in_place};
    std::optional<round_robin> pool{std::in_place, fakes->on, 2};
    stream a = pool->next();
    stream b = pool->next();
};

}  // namespace

TEST_F(foreign_memory_faults, what_unfinished_commands_use_is_released_when_the_runtime_is_closed) {
    fakes->first.works.hold();
    {
        auto x = adopted();
        clear(a, x);
    }
    fakes->first.works.fault("broken");
    notice();
    settle();
    EXPECT_EQ(released.now(), 0);
    pool.reset();
    fakes.reset();
    EXPECT_EQ(released.now(), 1);
}

TEST_F(foreign_memory_faults, what_is_dropped_after_the_fault_is_kept_as_well) {
    fakes->first.works.hold();
    auto x = adopted();
    clear(a, x);
    fakes->first.works.fault("broken");
    notice();
    x = tensor<unsigned>();
    settle();
    EXPECT_EQ(released.now(), 0);
    auto y = std::make_unique<tensor<unsigned>>();
    pool.reset();
    fakes.reset();
    EXPECT_EQ(released.now(), 1);
}

TEST_F(foreign_memory_faults, what_completed_commands_used_is_released_after_the_fault) {
    auto x = adopted();
    clear(a, x);
    fakes->on.synchronize();
    fakes->first.works.fault("broken");
    notice();
    x = tensor<unsigned>();
    EXPECT_TRUE(released.reaches(1));
}

TEST_F(foreign_memory_faults, a_tensor_that_outlives_the_runtime_of_a_faulted_device_is_released_when_dropped) {
    fakes->first.works.hold();
    auto x = adopted();
    clear(a, x);
    fakes->first.works.fault("broken");
    notice();
    pool.reset();
    fakes.reset();
    EXPECT_EQ(released.now(), 0);
    x = tensor<unsigned>();
    EXPECT_EQ(released.now(), 1);
}

// The owner may hold memory of the same runtime: that is no circle that lives for ever (the leak checker would say so).
TEST_F(foreign_memory_faults, an_owner_may_hold_memory_of_the_runtime) {
    fakes->first.works.hold();
    auto held = std::make_shared<storage_ref>(a.allocate(512));
    {
        auto x = adopt(fakes->on, memory.values.data(), {size}, [this, held](unsigned*) { released.add(); });
        clear(a, x);
    }
    held.reset();
    fakes->first.works.fault("broken");
    notice();
    pool.reset();
    fakes.reset();
    EXPECT_EQ(released.now(), 1);
}

TEST_F(foreign_memory_faults, a_faulted_device_takes_no_memory_and_exports_none) {
    auto x = adopted();
    fakes->first.works.fault("broken");
    notice();
    EXPECT_NE(failure_of([&] { adopted(); }), "");
    EXPECT_NE(failure_of([&] { to_dlpack(std::move(x)); }), "");
    EXPECT_NE(x.memory(), nullptr);
    EXPECT_EQ(released.now(), 0);
}

}  // namespace sluice::faults::foreign_memory_fault_tests
