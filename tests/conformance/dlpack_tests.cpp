// SPDX-License-Identifier: Apache-2.0
// DLPack capsules in and out: what is in them, who frees them and when, and that hostile ones only give errors.
#include <array>
#include <cstring>
#include <numeric>
#include <random>
#include <thread>

#include "conformance/support/dlpack_structs.hpp"
// After DLPack's own structures, as in a program that includes <dlpack/dlpack.h> first.
#include "conformance/expect_refused.hpp"
#include "conformance/kernels.hpp"
#include "conformance/support/lent_memory.hpp"
#include "sluice/runtime/dlpack.hpp"
#include "sluice/runtime/parts.hpp"

namespace sluice::conformance::dlpack_tests {
namespace {

constexpr std::size_t size = 1024;
constexpr std::int32_t on_cpu = 1;
constexpr std::int32_t on_cuda = 2;

std::vector<unsigned> numbers(std::size_t count = size) {
    std::vector<unsigned> all(count);
    std::iota(all.begin(), all.end(), 0u);
    return all;
}

std::int32_t ordinal_of(const device& on) {
    return on.kind() == device_kind::cuda ? std::stoi(on.name().substr(on.name().find(':') + 1)) : 0;
}

// A capsule as another library makes it. It owns nothing but its numbers; its deleter counts.
template <typename Capsule>
struct foreign_capsule {
    foreign_capsule(const device& on, void* data, release_count& released) : deleted(&released), capsule{} {
        if constexpr (std::same_as<Capsule, DLManagedTensorVersioned>) capsule.version = {1, 1};
        capsule.dl_tensor = {data,
                             {on.kind() == device_kind::cuda ? on_cuda : on_cpu, ordinal_of(on)},
                             2,
                             {1, 32, 1},
                             extents.data(),
                             strides.data(),
                             0};
        capsule.manager_ctx = this;
        capsule.deleter = [](Capsule* self) { static_cast<foreign_capsule*>(self->manager_ctx)->deleted->add(); };
    }
    foreign_capsule(const foreign_capsule&) = delete;  // the capsule points into it
    foreign_capsule& operator=(const foreign_capsule&) = delete;

    std::array<std::int64_t, 8> extents{16, 64, 1, 1, 1, 1, 1, 1};
    std::array<std::int64_t, 8> strides{64, 1, 1, 1, 1, 1, 1, 1};
    release_count* deleted;
    Capsule capsule;
};
using versioned = foreign_capsule<DLManagedTensorVersioned>;
using unversioned = foreign_capsule<DLManagedTensor>;

class dlpack : public conformance_test {
protected:
    lender others{GetParam()};
    release_count deleted;
    std::shared_ptr<lender::block> block = others.lend(numbers());
    round_robin pool{on, 2};
    stream a = pool.next();
    stream b = pool.next();
};
INSTANTIATE_TEST_SUITE_P(, dlpack, testing::ValuesIn(enrolled_backends()), backend_name);

}  // namespace

TEST_P(dlpack, capsules_of_both_kinds_are_imported_and_deleted_once) {
    versioned newer(on, block->data(), deleted);
    unversioned older(on, block->data(), deleted);
    {
        tensor<unsigned> x = from_dlpack<unsigned>(on, &newer.capsule);
        EXPECT_EQ(x.device_data(), block->data());
        EXPECT_EQ(x.shape(), (shape{16, 64}));
        x = sync(step(std::move(x), 1), pool);
    }
    EXPECT_TRUE(deleted.reaches(1));
    {
        const shared_tensor<unsigned> x = from_dlpack<const unsigned>(on, &older.capsule);
        EXPECT_EQ(sync(download(x), pool)[5], 16u);
        EXPECT_EQ(deleted.now(), 1);
    }
    EXPECT_TRUE(deleted.reaches(2));
}

TEST_P(dlpack, the_deleter_is_called_after_the_last_command) {
    NEEDS_A_GATE();
    versioned made(on, block->data(), deleted);
    tensor<unsigned> x = from_dlpack<unsigned>(on, &made.capsule);
    auto warm = submit_to(a, uninitialized<unsigned>({size}));
    set_on(a, warm, 0);
    on.synchronize();
    gate held(a);
    set_on(a, x, 3);
    std::jthread([x = std::move(x)]() mutable { x = tensor<unsigned>(); }).join();
    settle_drops(on);
    EXPECT_EQ(deleted.now(), 0);
    held.open();
    EXPECT_TRUE(deleted.reaches(1));
    EXPECT_EQ(block->contents(), std::vector<unsigned>(size, 3));
}

TEST_P(dlpack, what_may_be_left_out_may_be_left_out) {
    versioned made(on, block->data(), deleted);
    made.capsule.dl_tensor.strides = nullptr;
    made.capsule.deleter = nullptr;
    EXPECT_EQ(contents(from_dlpack<unsigned>(on, &made.capsule), a), numbers());

    versioned scalar(on, block->data(), deleted);
    scalar.capsule.dl_tensor.ndim = 0;
    scalar.capsule.dl_tensor.shape = nullptr;
    scalar.capsule.dl_tensor.strides = nullptr;
    tensor<unsigned> one = from_dlpack<unsigned>(on, &scalar.capsule);
    EXPECT_EQ(one.shape(), shape{});
    EXPECT_EQ(contents(std::move(one), a), std::vector<unsigned>{0});

    versioned empty(on, nullptr, deleted);
    empty.extents = {0, 7};
    empty.strides = {-5, 1234};
    EXPECT_EQ(from_dlpack<unsigned>(on, &empty.capsule).shape(), (shape{0, 7}));

    versioned column(on, block->data(), deleted);
    column.extents = {1, 64};
    column.strides = {-77, 1};  // of a dimension of length 1
    column.capsule.dl_tensor.byte_offset = 512;
    column.capsule.flags = 2;  // copied
    EXPECT_EQ(contents(from_dlpack<unsigned>(on, &column.capsule), a)[3], 131u);
    EXPECT_TRUE(deleted.reaches(3));  // one had no deleter
}

TEST_P(dlpack, read_only_capsules_are_imported_as_const_only) {
    versioned made(on, block->data(), deleted);
    made.capsule.flags = 1;
    expect_refused(errc::invalid_argument, {"only to be read", "const"},
                   [&] { from_dlpack<unsigned>(on, &made.capsule); });
    EXPECT_EQ(deleted.now(), 0);
    EXPECT_EQ(sync(download(from_dlpack<const unsigned>(on, &made.capsule)), pool), numbers());
    EXPECT_TRUE(deleted.reaches(1));
}

TEST_P(dlpack, hostile_capsules_are_refused_and_not_consumed) {
    const auto refused = [&](errc code, std::initializer_list<std::string> words, auto&& spoil) {
        versioned made(on, block->data(), deleted);
        spoil(made, made.capsule.dl_tensor);
        expect_refused(code, words, [&] { from_dlpack<unsigned>(on, &made.capsule); });
        expect_refused(code, words, [&] { from_dlpack<const unsigned>(on, &made.capsule); });
        // The older kind has the same tensor.
        if (made.capsule.version.major != 1 || made.capsule.flags != 0) return;
        unversioned older(on, block->data(), deleted);
        older.capsule.dl_tensor = made.capsule.dl_tensor;
        expect_refused(code, words, [&] { from_dlpack<unsigned>(on, &older.capsule); });
    };
    constexpr auto invalid = errc::invalid_argument;
    constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
    constexpr std::int64_t least = std::numeric_limits<std::int64_t>::min();
    refused(invalid, {"has no data"}, [](auto&, DLTensor& t) { t.data = nullptr; });
    refused(invalid, {"-1 dimensions"}, [](auto&, DLTensor& t) { t.ndim = -1; });
    refused(errc::shape_mismatch, {"5 dimensions", "at most 4"}, [](auto&, DLTensor& t) { t.ndim = 5; });
    refused(errc::shape_mismatch, {"2147483647 dimensions"}, [](auto&, DLTensor& t) { t.ndim = 2147483647; });
    refused(invalid, {"no shape"}, [](auto&, DLTensor& t) { t.shape = nullptr; });
    refused(invalid, {"dimension 1", "length -64"}, [](auto& m, DLTensor&) { m.extents[1] = -64; });
    refused(invalid, {"dimension 0", std::to_string(least)}, [&](auto& m, DLTensor&) { m.extents[0] = least; });
    refused(invalid, {"product that no memory holds"}, [&](auto& m, DLTensor&) { m.extents = {most, most}; });
    refused(invalid, {"product that no memory holds"}, [&](auto& m, DLTensor& t) {
        m.extents[0] = most / 2 + 1;  // the elements can be counted, their bytes cannot
        t.ndim = 1;
    });
    refused(errc::unsupported, {"stride 1 in dimension 0", "it is 64", "contiguous"},
            [](auto& m, DLTensor&) { m.strides = {1, 1}; });
    refused(errc::unsupported, {"stride 16 in dimension 1"}, [](auto& m, DLTensor&) { m.strides = {1, 16}; });
    refused(errc::unsupported, {"stride 0 in dimension 1"}, [](auto& m, DLTensor&) { m.strides = {0, 0}; });
    refused(errc::unsupported, {"stride -1"}, [](auto& m, DLTensor&) { m.strides = {64, -1}; });
    refused(errc::unsupported, {"stride 128 in dimension 0"}, [](auto& m, DLTensor&) { m.strides = {128, 1}; });
    refused(invalid, {"float32", "uint32"}, [](auto&, DLTensor& t) { t.dtype.code = 2; });
    refused(invalid, {"uint64", "uint32"}, [](auto&, DLTensor& t) { t.dtype.bits = 64; });
    refused(invalid, {"uint4;"}, [](auto&, DLTensor& t) { t.dtype.bits = 4; });
    refused(invalid, {"type 200 of 32"}, [](auto&, DLTensor& t) { t.dtype.code = 200; });
    refused(errc::unsupported, {"4 lanes"}, [](auto&, DLTensor& t) { t.dtype.lanes = 4; });
    refused(errc::unsupported, {"0 lanes"}, [](auto&, DLTensor& t) { t.dtype.lanes = 0; });
    refused(invalid, {"device type 7 "}, [](auto&, DLTensor& t) { t.device.device_type = 7; });
    refused(invalid, {"kDLCUDAManaged"}, [](auto&, DLTensor& t) { t.device.device_type = 13; });
    refused(invalid, {on.kind() == device_kind::cuda ? "kDLCPU " : "kDLCUDA ", "takes"},
            [&](auto&, DLTensor& t) { t.device.device_type = on.kind() == device_kind::cuda ? on_cpu : on_cuda; });
    refused(invalid, {" 99; this device takes"}, [](auto&, DLTensor& t) { t.device.device_id = 99; });
    refused(invalid, {"byte_offset"}, [](auto&, DLTensor& t) { t.byte_offset = ~std::uint64_t{0} - 100; });
    refused(invalid, {"4 bytes after a multiple"}, [](auto&, DLTensor& t) { t.byte_offset = 4; });
    refused(errc::unsupported, {"version 2.0"}, [](auto& m, DLTensor&) { m.capsule.version = {2, 0}; });
    refused(errc::unsupported, {"version 0.8"}, [](auto& m, DLTensor&) { m.capsule.version = {0, 8}; });
    refused(errc::unsupported, {"flags that are not known: 8"}, [](auto& m, DLTensor&) { m.capsule.flags = 8; });
    expect_refused(invalid, {"is null"}, [&] { from_dlpack<unsigned>(on, static_cast<DLManagedTensor*>(nullptr)); });
    expect_refused(invalid, {"is null"},
                   [&] { from_dlpack<unsigned>(on, static_cast<DLManagedTensorVersioned*>(nullptr)); });
    settle_drops(on);
    EXPECT_EQ(deleted.now(), 0);
}

// Fields with random bytes, except the addresses of data, shape and strides, which a capsule is trusted for.
TEST_P(dlpack, random_fields_give_errors_or_tensors_of_this_memory) {
    std::mt19937_64 random(7);
    int imported = 0;
    for (int round = 0; round < 3000; ++round) {
        versioned made(on, block->data(), deleted);
        DLTensor& t = made.capsule.dl_tensor;
        for (int changes = 1 + static_cast<int>(random() % 3); changes > 0; --changes) {
            const std::uint64_t bits = random() >> (random() % 64);
            switch (random() % 9) {
                case 0: std::memcpy(&t.ndim, &bits, sizeof(t.ndim)); break;
                case 1: std::memcpy(&t.dtype, &bits, sizeof(t.dtype)); break;
                case 2: std::memcpy(&t.device, &bits, sizeof(t.device)); break;
                case 3: made.extents[random() % 2] = static_cast<std::int64_t>(bits); break;
                case 4: made.strides[random() % 2] = static_cast<std::int64_t>(bits); break;
                case 5: t.byte_offset = ~bits; break;
                case 6: std::memcpy(&made.capsule.version, &bits, sizeof(bits)); break;
                case 7: made.capsule.flags = bits; break;
                default: t.shape = random() % 2 == 0 ? nullptr : t.shape;
            }
        }
        try {
            const tensor<unsigned> x = from_dlpack<unsigned>(on, &made.capsule);
            ++imported;
            ASSERT_EQ(x.shape().rank(), static_cast<std::size_t>(t.ndim));
            for (std::size_t i = 0; i < x.shape().rank(); ++i)
                EXPECT_EQ(x.shape()[i], static_cast<std::size_t>(made.extents[i])) << to_string(x.shape());
        } catch (const error& refusal) {
            EXPECT_NE(refusal.code(), errc::device_failed) << refusal.what();
        }
        ASSERT_TRUE(deleted.reaches(imported)) << round;  // before the capsule goes
    }
    EXPECT_GT(imported, 0);
    EXPECT_LT(imported, 3000);
}

TEST_P(dlpack, an_exported_tensor_is_complete_and_described) {
    auto x = submit_to(a, upload(numbers(), {16, 64}));
    step_on(b, x, 1, slow());
    unsigned* const data = x.device_data();
    dlpack_capsule<> made = to_dlpack(std::move(x));
    EXPECT_EQ(x.memory(), nullptr);
    const DLTensor& t = made->dl_tensor;
    EXPECT_EQ(made->version.major, 1u);
    EXPECT_EQ(made->flags, 0u);
    EXPECT_EQ(t.data, data);
    EXPECT_EQ(t.device.device_type, on.kind() == device_kind::cuda ? on_cuda : on_cpu);
    EXPECT_EQ(t.device.device_id, ordinal_of(on));
    EXPECT_EQ(t.ndim, 2);
    EXPECT_EQ(std::pair(t.shape[0], t.shape[1]), std::pair(std::int64_t{16}, std::int64_t{64}));
    EXPECT_EQ(std::pair(t.strides[0], t.strides[1]), std::pair(std::int64_t{64}, std::int64_t{1}));
    EXPECT_EQ(t.dtype.code, 1);
    EXPECT_EQ(t.dtype.bits, 32);
    EXPECT_EQ(t.dtype.lanes, 1);
    EXPECT_EQ(t.byte_offset, 0u);
    if (on.kind() == device_kind::cpu) {
        EXPECT_EQ(static_cast<unsigned*>(t.data)[10], 31u);
    }
    // Into another runtime, without a copy.
    runtime second(GetParam().options);
    device& there = second.find(GetParam().device);
    single_stream only(there);
    tensor<unsigned> y = from_dlpack<unsigned>(there, made.release());
    EXPECT_EQ(y.device_data(), data);
    EXPECT_EQ(sluice::sync(download(std::move(y)), only)[10], 31u);
}

TEST_P(dlpack, an_exported_tensor_keeps_its_memory_until_the_deleter_is_called) {
    const std::size_t before = bytes_in_use();
    dlpack_capsule<DLManagedTensor> made = to_dlpack<DLManagedTensor>(sync(upload(numbers()), pool));
    EXPECT_GT(bytes_in_use(), before);
    DLManagedTensor* const given = made.release();
    std::jthread([given] { given->deleter(given); }).join();
    EXPECT_EQ(bytes_in_use(), before);
    dlpack_capsule<DLManagedTensor> dropped = to_dlpack<DLManagedTensor>(sync(upload(numbers()), pool));
    dropped.reset();
    EXPECT_EQ(bytes_in_use(), before);
}

TEST_P(dlpack, a_capsule_outlives_the_runtime) {
    dlpack_capsule<> made;
    {
        runtime brief(GetParam().options);
        single_stream only(brief.find(GetParam().device));
        made = to_dlpack(sluice::sync(upload(numbers()), only));
    }
    tensor<unsigned> x = from_dlpack<unsigned>(on, made.release());
    EXPECT_EQ(contents(std::move(x), a), numbers());
}

TEST_P(dlpack, a_shared_tensor_is_exported_to_read) {
    const shared_tensor<unsigned> x(sync(upload(numbers(), {4, 256}), pool));
    dlpack_capsule<> made = to_dlpack(x);
    EXPECT_EQ(made->flags, 1u);
    EXPECT_EQ(sync(download(x), pool), numbers());  // still ours
    dlpack_capsule<> part = to_dlpack(slice(x, 1, 2));
    EXPECT_EQ(part->dl_tensor.data, x->device_data() + 256);
    const shared_tensor<unsigned> back = from_dlpack<const unsigned>(on, part.release());
    EXPECT_EQ(sync(download(back), pool).front(), 256u);
}

TEST_P(dlpack, elements_have_the_types_of_dlpack) {
    const auto check = [&]<typename T>(T, unsigned code, unsigned bits) {
        dlpack_capsule<> made = to_dlpack(sync(zeros<T>({3}), pool));
        EXPECT_EQ(made->dl_tensor.dtype.code, code);
        EXPECT_EQ(made->dl_tensor.dtype.bits, bits);
        EXPECT_EQ(from_dlpack<T>(on, made.release()).shape(), shape{3});
    };
    check(float{}, 2, 32);
    check(double{}, 2, 64);
    check(half{}, 2, 16);
    check(bfloat16{}, 4, 16);
    check(bool{}, 6, 8);
    check(std::int8_t{}, 0, 8);
    check(std::int16_t{}, 0, 16);
    check(std::int32_t{}, 0, 32);
    check(std::int64_t{}, 0, 64);
    check(std::uint8_t{}, 1, 8);
    check(std::uint16_t{}, 1, 16);
    check(std::uint64_t{}, 1, 64);
    static_assert(!dlpack_element<int*> && !dlpack_element<long double>);
}

TEST_P(dlpack, what_cannot_be_exported_is_refused_and_kept) {
    expect_refused(errc::invalid_argument, {"to_dlpack", "moved from"}, [&] { to_dlpack(tensor<unsigned>()); });
    expect_refused(errc::graph_refused, {"to_dlpack", "inside a graph"}, [&] {
        compile(on, [] {
            return zeros<unsigned>({4}).transform([](auto x) {
                to_dlpack(std::move(x));
                return x;
            });
        });
    });
    tensor<unsigned> x = sync(zeros<unsigned>({size}), pool);
    const std::array accesses{memory_access{x.memory(), access_mode::write}};
    b.host_call({"breaks", accesses}, {[] { throw std::runtime_error("broken contents"); }});
    EXPECT_THROW(to_dlpack(std::move(x)), std::runtime_error);
    EXPECT_NE(x.memory(), nullptr);
}

}  // namespace sluice::conformance::dlpack_tests
