// SPDX-License-Identifier: Apache-2.0
// Answers at once read inputs and write outputs where the caller has them. After each of them is a page that no thread
// may touch, so a command that reads or writes a byte more ends the program.
#include <gtest/gtest.h>

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "nn/support/operator_families.hpp"

namespace sluice::nn::caller_memory_tests {
namespace {

using namespace test_support;

// Some bytes that end less than 16 bytes before a page that may not be touched, and begin at a multiple of 16.
class guarded_bytes {
public:
    explicit guarded_bytes(std::size_t bytes) {
        const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
        const std::size_t rounded = (bytes + 15) / 16 * 16, before = (rounded + page - 1) / page * page;
        size_ = before + page;
        void* const all = ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (all == MAP_FAILED) throw std::bad_alloc();
        all_ = static_cast<std::byte*>(all);
        ::mprotect(all_ + before, page, PROT_NONE);
        begin_ = all_ + before - rounded;
    }
    guarded_bytes(const guarded_bytes&) = delete;
    guarded_bytes& operator=(const guarded_bytes&) = delete;
    ~guarded_bytes() { ::munmap(all_, size_); }

    std::byte* data() const noexcept { return begin_; }

private:
    std::byte* all_ = nullptr;
    std::byte* begin_ = nullptr;
    std::size_t size_ = 0;
};

class caller_memory : public operator_families {
protected:
    any_tensor bytes(lengths shape) {
        std::vector<std::uint8_t> made(product(shape));
        for (auto& each : made) each = static_cast<std::uint8_t>(any(0, 255));
        return any_tensor(made, std::move(shape));
    }

    // The inputs with these numbers are constants.
    void expect_as_run(const single_node& what, const std::vector<std::size_t>& constants) {
        model of = model_of(what);
        std::vector<any_tensor> inputs;
        std::vector<value_info> left;
        for (std::size_t i = 0, next = 0; i < what.inputs.size(); ++i) {
            if (!what.inputs[i]) continue;
            const value_info info = of.body.inputs[next++];
            if (std::ranges::find(constants, i) == constants.end()) {
                left.push_back(info);
                inputs.push_back(what.inputs[i]);
                continue;
            }
            const auto from = what.inputs[i].bytes();
            of.body.constants.insert(
                {info.name, constant{what.inputs[i].type(), what.inputs[i].shape(),
                                     std::make_shared<const std::string>(reinterpret_cast<const char*>(from.data()),
                                                                         from.size())}});
        }
        of.body.inputs = left;
        expect_as_run(of, inputs);
    }

    void expect_as_run(const model& of, const std::vector<any_tensor>& inputs) {
        const network made = sync(make_network(of), on_);
        const std::vector<any_tensor> expected = sync(made.run(inputs), on_);
        for (int call = 0; call < 5; ++call) {
            // Other places each time.
            std::vector<std::unique_ptr<guarded_bytes>> memory;
            std::vector<input_view> from;
            std::vector<output_view> to;
            for (const any_tensor& each : inputs) {
                memory.push_back(std::make_unique<guarded_bytes>(each.size_bytes()));
                std::memcpy(memory.back()->data(), each.bytes().data(), each.size_bytes());
                from.emplace_back(each.type(), memory.back()->data(), each.shape());
            }
            for (const any_tensor& each : expected) {
                memory.push_back(std::make_unique<guarded_bytes>(each.size_bytes()));
                to.emplace_back(each.type(), memory.back()->data(), each.shape());
            }
            made(from, to);
            for (std::size_t i = 0; i < inputs.size(); ++i)
                ASSERT_EQ(std::memcmp(from[i].data(), inputs[i].bytes().data(), inputs[i].size_bytes()), 0)
                    << "input " << i << ", call " << call;
            for (std::size_t i = 0; i < expected.size(); ++i)
                ASSERT_EQ(std::memcmp(to[i].data(), expected[i].bytes().data(), expected[i].size_bytes()), 0)
                    << "output " << i << ", call " << call;
        }
    }
};

TEST_P(caller_memory, is_all_that_is_read_and_written) {
    const auto i64 = [](std::vector<std::int64_t> values) { return list(values); };
    const struct {
        single_node what;
        std::vector<std::size_t> constants;
    } all[] = {
        {{"Gather", {normal({9, 5, 37}), number<std::int64_t>(3)}, {{"axis", whole(1)}}}, {1}},
        {{"Gather", {normal({50, 37}), i64({3, 49, 0, 7})}}, {}},
        {{"GatherElements", {normal({7, 5}), any_tensor(std::vector<std::int64_t>(15, 4), {3, 5})}}, {}},
        {{"Concat", {normal({3, 4, 7}), normal({3, 1, 7}), normal({3, 5, 7})}, {{"axis", whole(1)}}}, {}},
        {{"Split", {normal({3, 9, 5})}, {{"axis", whole(1)}}, "", 13, 3}, {}},
        {{"Transpose", {normal({3, 37, 13})}, {{"perm", wholes({2, 0, 1})}}}, {}},
        {{"Transpose", {bytes({31, 19})}, {{"perm", wholes({1, 0})}}}, {}},
        {{"Pad", {normal({2, 3, 5, 7}), i64({0, 0, 1, 2, 0, 1, 0, 3})}}, {1}},
        {{"Expand", {normal({3, 1, 5}), i64({3, 7, 5})}}, {1}},
        {{"Tile", {normal({3, 5}), i64({2, 3})}}, {1}},
        {{"Slice", {normal({9, 37}), i64({1, 30}), i64({8, 2}), i64({0, 1}), i64({2, -3})}}, {1, 2, 3, 4}},
        {{"MaxPool", {normal({2, 3, 11, 13})}, {{"kernel_shape", wholes({5, 5})}, {"pads", wholes({2, 2, 2, 2})}}}, {}},
        {{"AveragePool", {normal({2, 3, 11, 13})}, {{"kernel_shape", wholes({3, 2})}}}, {}},
        {{"GlobalAveragePool", {normal({2, 5, 7, 9})}}, {}},
        {{"Conv", {normal({2, 3, 11, 13}), normal({5, 3, 3, 3}), normal({5})}}, {1, 2}},
        {{"Conv", {normal({2, 6, 11, 13}), normal({6, 1, 3, 3})}, {{"group", whole(6)}}}, {1}},
        {{"Conv", {normal({2, 3, 37}), normal({5, 3, 3})}}, {}},
        {{"ConvTranspose", {normal({2, 3, 5, 7}), normal({3, 4, 3, 3})}}, {1}},
        {{"MatMul", {normal({3, 13, 29}), normal({29, 37})}}, {1}},
        {{"MatMul", {normal({2, 13, 29}), normal({2, 29, 37})}}, {}},
        {{"Gemm", {normal({13, 29}), normal({29, 37}), normal({37})}}, {1, 2}},
        {{"Einsum", {normal({3, 13}), normal({13, 5})}, {{"equation", text("ij,jk->ik")}}}, {}},
        {{"Softmax", {normal({13, 37})}}, {}},
        {{"Softmax", {normal({3, 5, 37})}, {{"axis", whole(1)}}}, {}},
        {{"LayerNormalization", {normal({13, 37}), normal({37}), normal({37})}}, {1, 2}},
        {{"InstanceNormalization", {normal({2, 3, 37}), normal({3}), normal({3})}}, {1, 2}},
        {{"ReduceMean", {normal({13, 37})}, {{"axes", wholes({1})}}}, {}},
        {{"ReduceMax", {normal({13, 37, 3})}, {{"axes", wholes({1})}}}, {}},
        {{"ArgMax", {normal({13, 37})}, {{"axis", whole(1)}}}, {}},
        {{"TopK", {normal({13, 37}), i64({5})}, {}, "", 17, 2}, {1}},
        {{"CumSum", {normal({13, 37}), number<std::int64_t>(1)}}, {1}},
        {{"Resize", {normal({1, 3, 5, 7}), any_tensor(), list(std::vector<float>{1, 1, 2, 2})}}, {2}},
        {{"Sigmoid", {normal({777})}}, {}},
        {{"Add", {normal({13, 37}), normal({37})}}, {}},
        {{"Where", {booleans({13, 37}), normal({13, 37}), normal({37})}}, {}},
        {{"Equal", {i64({1, 2, 3, 4, 5}), i64({1, 0, 3, 0, 5})}}, {}},
        {{"Cast", {normal({13, 37})}, {{"to", whole(10)}}}, {}},
        {{"QuantizeLinear", {normal({13, 37}), number(0.1f), number<std::uint8_t>(7)}}, {1, 2}},
        {{"DequantizeLinear", {bytes({13, 37}), number(0.1f), number<std::uint8_t>(7)}}, {1, 2}},
        {{"DynamicQuantizeLinear", {normal({13, 37})}, {}, "", 17, 3}, {}},
        {{"MatMulInteger", {bytes({13, 29}), bytes({29, 37})}}, {}},
        {{"Identity", {normal({13, 37})}}, {}},
        {{"Reshape", {normal({12, 37}), i64({37, 12})}}, {1}},
        {{"ScatterElements",
          {normal({7, 5}), any_tensor(std::vector<std::int64_t>{0, 6, 2, 3, 1}, {1, 5}), normal({1, 5})}},
         {}},
        {{"LSTM", {normal({5, 2, 7}), normal({1, 44, 7}), normal({1, 44, 11})}, {{"hidden_size", whole(11)}}}, {1, 2}},
        {{"GRU", {normal({5, 2, 7}), normal({1, 33, 7}), normal({1, 33, 11})}, {{"hidden_size", whole(11)}}}, {1, 2}},
    };
    for (const auto& each : all) {
        SCOPED_TRACE(each.what.op);
        expect_as_run(each.what, each.constants);
        if (HasFatalFailure()) return;
    }
}

// Only what is taken is read: the rest of a table may be memory that no thread can read.
TEST_P(caller_memory, is_not_copied) {
    const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    const std::size_t rows = 64, columns = page / sizeof(float), taken = 5;
    model made;
    made.path = "gather.onnx";
    made.opsets = {{"", 17}};
    made.body.inputs = {f32("x", {of(rows), of(columns)})};
    made.body.outputs = {f32("y", {of(columns)})};
    made.body.constants = {{"i", tensor_of<std::int64_t>({static_cast<std::int64_t>(taken)}, {})}};
    made.body.nodes = {make_node("Gather", {"x", "i"}, {"y"})};
    const network gather = sync(make_network(made), on_);
    guarded_bytes table(rows * page);
    auto* const numbers = reinterpret_cast<float*>(table.data());
    for (std::size_t i = 0; i < rows * columns; ++i) numbers[i] = static_cast<float>(i);
    for (int call = 0; call < 5; ++call) {
        if (call == 3) {
            ASSERT_EQ(::mprotect(table.data(), taken * page, PROT_NONE), 0);
            ASSERT_EQ(::mprotect(table.data() + (taken + 1) * page, (rows - taken - 1) * page, PROT_NONE), 0);
        }
        std::vector<float> y(columns);
        gather({{io::dtype::f32, numbers, std::vector<std::size_t>{rows, columns}}}, {{y, {columns}}});
        for (std::size_t i = 0; i < columns; ++i) ASSERT_EQ(y[i], static_cast<float>(taken * columns + i)) << call;
    }
}

model chain() {
    model made;
    made.path = "chain.onnx";
    made.opsets = {{"", 17}};
    made.body.inputs = {f32("x", {of(3), of(32)})};
    made.body.constants = {{"w", tensor_of<float>(std::vector<float>(32 * 32, 0.25f), {32, 32})}};
    made.body.nodes = {make_node("Tanh", {"x"}, {"a"}), make_node("MatMul", {"a", "w"}, {"b"}),
                       make_node("Softmax", {"b"}, {"c"}), make_node("Identity", {"b"}, {"d"})};
    return made;
}

// Outputs that other steps read too, that are the same memory, and that are an input.
TEST_P(caller_memory, takes_outputs_that_are_used_again) {
    model made = chain();
    made.body.outputs = {f32("b", {of(3), of(32)}), f32("c", {of(3), of(32)}), f32("d", {of(3), of(32)}),
                         f32("a", {of(3), of(32)}), f32("x", {of(3), of(32)})};
    expect_as_run(made, {normal({3, 32})});
}

// Outputs may be where inputs are, and partly so; outputs side by side at any address are right too.
TEST_P(caller_memory, may_be_that_of_inputs_and_outputs) {
    model of = chain();
    of.body.outputs = {f32("c", {test_support::of(3), test_support::of(32)})};
    const network made = sync(make_network(of), on_);
    const any_tensor x = normal({3, 32});
    const auto expected = sync(made.run({x}), on_).at(0);
    for (int call = 0; call < 4; ++call) {
        for (const std::size_t shift : {0u, 4u, 7u, 96u}) {
            std::vector<float> room(96 * 3);
            std::ranges::copy(x.values<float>(), room.begin());
            const std::vector<std::size_t> shape{3, 32};
            made({{std::span<const float>(room).first(96), shape}},
                 {{std::span<float>(room).subspan(shift, 96), shape}});
            for (std::size_t i = 0; i < 96; ++i) ASSERT_EQ(room[shift + i], expected.values<float>()[i]) << shift;
        }
    }
}

INSTANTIATE_TEST_SUITE_P(workers, caller_memory, ::testing::Values(1u, 3u));

}  // namespace
}  // namespace sluice::nn::caller_memory_tests
