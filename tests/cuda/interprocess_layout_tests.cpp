// SPDX-License-Identifier: Apache-2.0
// The handles that cross to other processes: what they hold arrives, and hostile or misplaced ones are refused before
// CUDA sees them.
#include "cuda/interprocess_layout.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <random>

#include "conformance/expect_refused.hpp"

namespace sluice::cuda::interprocess::interprocess_layout_tests {
namespace {

using conformance::expect_refused;
using sluice::detail::exported_element;

// Where the fields of a handle are.
constexpr std::size_t version_at = 8, kind_at = 12, sum_at = 16, machine_at = 24, process_at = 40, gpu_at = 56,
                      allocation_bytes_at = 136, offset_at = 144, type_at = 152, flags_at = 154, rank_at = 156,
                      extents_at = 160;

constexpr exported_element floats{{2, 32}, true}, floats_to_read{{2, 32}, false}, ints{{0, 32}, true};

identity numbered(int number) {
    identity made{};
    made.fill(static_cast<std::byte>(number));
    return made;
}

class interprocess_handles : public testing::Test {
protected:
    interprocess_handles() {
        sent.from = {numbered(1), numbered(2), numbered(3)};
        for (std::size_t i = 0; i < sent.allocation.size(); ++i) sent.allocation[i] = static_cast<std::byte>(7 * i);
        sent.allocation_bytes = 1024;
        sent.offset = 256;
        sent.shape = shape{16, 12};  // to the last byte
        sent.element = floats;
    }

    // As the importing process sees it.
    tensor_contents arrives(const tensor_handle& handle, exported_element element = floats) const {
        return read(handle, here, element, {"import_tensor", "cuda:0"});
    }
    void refuses(const tensor_handle& handle, errc code, std::initializer_list<std::string> words,
                 exported_element element = floats) const {
        expect_refused(code, words, [&] { arrives(handle, element); });
    }
    // The handle with one field changed, and a sum that fits.
    template <typename T>
    tensor_handle with(std::size_t at, T value) const {
        tensor_handle made = write(sent);
        std::memcpy(made.bytes.data() + at, &value, sizeof(value));
        seal(made.bytes);
        return made;
    }

    tensor_contents sent;
    origin here{numbered(1), numbered(9), numbered(3)};
};

}  // namespace

TEST_F(interprocess_handles, arrive_as_they_were_sent) {
    const tensor_contents came = arrives(write(sent));
    EXPECT_EQ(came.allocation, sent.allocation);
    EXPECT_EQ(came.allocation_bytes, 1024u);
    EXPECT_EQ(came.offset, 256u);
    EXPECT_EQ(came.shape, (shape{16, 12}));
    EXPECT_EQ(came.from.gpu, sent.from.gpu);

    event_contents event{sent.from, sent.allocation};
    EXPECT_EQ(read(write(event), here, {}).event, sent.allocation);
}

TEST_F(interprocess_handles, hold_tensors_of_each_rank_and_empty_ones) {
    for (const shape& each : {shape{}, shape{1}, shape{192}, shape{2, 3, 4, 8}, shape{0}, shape{5, 0}}) {
        sent.shape = each;
        EXPECT_EQ(arrives(write(sent)).shape, each) << to_string(each);
    }
    sent.allocation_bytes = sent.offset = 0;
    sent.shape = shape{0, std::numeric_limits<std::size_t>::max()};
    EXPECT_EQ(arrives(write(sent)).shape, sent.shape);
}

TEST_F(interprocess_handles, are_not_taken_from_other_bytes) {
    refuses({}, errc::invalid_argument, {"import_tensor", "cuda:0", "no handle of Sluice"});
    tensor_handle noise;
    noise.bytes.fill(std::byte{0xff});
    refuses(noise, errc::invalid_argument, {"no handle of Sluice"});
}

TEST_F(interprocess_handles, of_which_any_bit_was_changed_are_refused) {
    const tensor_handle whole = write(sent);
    for (std::size_t bit = 0; bit < 8 * whole.bytes.size(); ++bit) {
        tensor_handle damaged = whole;
        damaged.bytes[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
        EXPECT_THROW(arrives(damaged), error) << "bit " << bit;
    }
}

TEST_F(interprocess_handles, of_another_version_are_refused) {
    refuses(with(version_at, std::uint32_t{2}), errc::unsupported, {"version 2", "version 1 is understood"});
    refuses(with(version_at, std::uint32_t{0}), errc::unsupported, {"version 0"});
}

TEST_F(interprocess_handles, of_events_are_not_handles_of_tensors) {
    tensor_handle mistaken;
    const event_handle event = write(event_contents{sent.from, sent.allocation});
    std::memcpy(mistaken.bytes.data(), event.bytes.data(), event.bytes.size());
    refuses(mistaken, errc::invalid_argument, {"the handle of an event, not of a tensor"});
    refuses(with(kind_at, std::uint32_t{77}), errc::invalid_argument, {"not known"});

    event_handle cut;
    std::memcpy(cut.bytes.data(), write(sent).bytes.data(), cut.bytes.size());
    expect_refused(errc::invalid_argument, {"the handle of a tensor, not of an event"}, [&] { read(cut, here, {}); });
}

TEST_F(interprocess_handles, that_are_damaged_say_so) {
    tensor_handle damaged = write(sent);
    damaged.bytes[sum_at] ^= std::byte{1};
    refuses(damaged, errc::invalid_argument, {"damaged"});
}

TEST_F(interprocess_handles, belong_to_another_process_of_this_machine_and_to_this_gpu) {
    refuses(with(machine_at, numbered(8)), errc::invalid_argument, {"another machine", "last started"});
    refuses(with(process_at, here.process), errc::invalid_argument, {"this process made the handle itself"});
    refuses(with(gpu_at, numbered(0xab)), errc::invalid_argument,
            {"UUID abababab-abab-abab-abab-abababababab", "this is 03030303-0303-0303-0303-030303030303"});
}

TEST_F(interprocess_handles, say_their_element_type) {
    refuses(write(sent), errc::invalid_argument, {"elements of float32", "imported are elements of int32"}, ints);
    refuses(with(type_at, std::uint8_t{200}), errc::invalid_argument, {"type 200 with 32 bits"});
    EXPECT_EQ(arrives(write(sent), floats_to_read).shape, (shape{16, 12}));
}

TEST_F(interprocess_handles, of_shared_tensors_are_only_imported_as_const) {
    sent.element = floats_to_read;
    EXPECT_EQ(arrives(write(sent), floats_to_read).offset, 256u);
    refuses(write(sent), errc::invalid_argument, {"only to be read", "import_tensor<const T>"});
    refuses(with(flags_at, std::uint16_t{6}), errc::unsupported, {"flags that are not known: 6"});
}

TEST_F(interprocess_handles, never_reach_beyond_the_allocation) {
    refuses(with(offset_at, std::uint64_t{257}), errc::invalid_argument, {"768 bytes at 257", "has 1024"});
    refuses(with(offset_at, ~std::uint64_t{0}), errc::invalid_argument, {"at 18446744073709551615"});
    refuses(with(allocation_bytes_at, std::uint64_t{1023}), errc::invalid_argument, {"has 1023"});
    refuses(with(extents_at, std::uint64_t{17}), errc::invalid_argument, {"816 bytes"});
    refuses(with(extents_at, std::uint64_t{1} << 62), errc::invalid_argument, {"no memory holds"});
    refuses(with(rank_at, std::uint32_t{5}), errc::invalid_argument, {"5 dimensions"});
    refuses(with(rank_at, ~std::uint32_t{0}), errc::invalid_argument, {"4294967295 dimensions"});
}

// Each word of a handle may say anything: what is accepted lies within its allocation.
TEST_F(interprocess_handles, with_random_fields_are_refused_or_consistent) {
    std::mt19937_64 random(1);
    int accepted = 0;
    for (int round = 0; round < 20'000; ++round) {
        tensor_handle made = write(sent);
        const std::size_t words = made.bytes.size() / 8;
        for (std::uint64_t changed = 1 + random() % 3; changed-- > 0;) {
            const std::size_t at = 8 * (random() % words);
            const std::uint64_t value = random() % 2 == 0 ? random() : random() % 2048;
            std::memcpy(made.bytes.data() + at, &value, sizeof(value));
        }
        seal(made.bytes);
        try {
            const tensor_contents came = arrives(made);
            ++accepted;
            if (came.shape.size() == 0) continue;
            ASSERT_LE(came.offset, came.allocation_bytes);
            ASSERT_LE(came.shape.size(), (came.allocation_bytes - came.offset) / 4);
        } catch (const error&) {  // NOLINT(bugprone-empty-catch): refused
        }
    }
    EXPECT_GT(accepted, 0);
}

TEST_F(interprocess_handles, know_this_process_and_this_machine) {
    const origin first = origin_here(numbered(4)), again = origin_here(numbered(4));
    EXPECT_EQ(first.machine, again.machine);
    EXPECT_EQ(first.process, again.process);
    EXPECT_EQ(first.gpu, numbered(4));
    EXPECT_NE(first.process, identity{});
}

}  // namespace sluice::cuda::interprocess::interprocess_layout_tests
