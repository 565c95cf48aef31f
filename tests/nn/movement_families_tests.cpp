// SPDX-License-Identifier: Apache-2.0
// What a CPU moves in runs and tiles is where a plain loop over the elements puts it: views with any strides, and Pad,
// Gather, GatherND, GatherElements, ScatterElements, ScatterND, OneHot, Trilu and Concat over shapes at random.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "nn/operators/moves_on_cpu.hpp"
#include "nn/support/single_nodes.hpp"

namespace sluice::nn::movement_families_tests {
namespace {

using namespace test_support;
using lengths = std::vector<std::size_t>;

std::size_t product(const lengths& shape) {
    return std::accumulate(shape.begin(), shape.end(), std::size_t{1}, std::multiplies<>());
}
lengths strides_of(const lengths& shape) {
    lengths made(shape.size());
    std::size_t next = 1;
    for (std::size_t d = shape.size(); d-- > 0;) {
        made[d] = next;
        next *= shape[d];
    }
    return made;
}
// Calls function(place, coordinates) for each element, in order.
template <typename Function>
void for_each_place(const lengths& shape, const Function& function) {
    lengths at(shape.size(), 0);
    for (std::size_t i = 0, count = product(shape); i < count; ++i) {
        function(i, at);
        for (std::size_t d = shape.size(); d-- > 0;) {
            if (++at[d] < shape[d]) break;
            at[d] = 0;
        }
    }
}

class movement_families : public ::testing::Test {
protected:
    std::size_t any(std::size_t low, std::size_t high) { return low + numbers_() % (high - low + 1); }
    lengths some_lengths(std::size_t rank) {
        lengths made(rank);
        for (std::size_t& each : made) each = any(1, 6);
        if (rank != 0 && any(0, 2) == 0) made[any(0, rank - 1)] = any(10, 70);
        return made;
    }
    static any_tensor counted(const lengths& shape) {
        std::vector<float> values(product(shape));
        std::iota(values.begin(), values.end(), 1.0f);
        return any_tensor(values, shape);
    }
    std::vector<std::int64_t> places(std::size_t count, std::size_t length) {
        std::vector<std::int64_t> made(count);
        for (std::int64_t& each : made)
            each = static_cast<std::int64_t>(any(0, 2 * length - 1)) - static_cast<std::int64_t>(length);
        return made;
    }
    static std::size_t place_of(std::int64_t index, std::size_t length) {
        return static_cast<std::size_t>(index < 0 ? index + static_cast<std::int64_t>(length) : index);
    }
    std::vector<float> answer(const std::string& op, std::vector<any_tensor> inputs, attributes with = {},
                              std::int64_t opset = 19) {
        const auto made = run_node({op, std::move(inputs), std::move(with), {}, opset}, on_);
        const auto values = made.at(0).values<float>();
        return {values.begin(), values.end()};
    }

    template <typename Word>
    void move_some_views() {
        for (int round = 0; round < 400; ++round) {
            operators::strided_view view;
            view.rank = any(0, 5);
            std::int64_t low = 0, high = 0;
            for (std::size_t d = 0; d < view.rank; ++d) {
                view.length[d] = any(1, any(0, 3) == 0 ? 40 : 9);
                view.stride[d] = static_cast<std::int64_t>(any(0, 9)) - 2;
                if (any(0, 2) == 0) view.stride[d] = 1;
                if (any(0, 3) == 0) view.stride[d] *= 8;
                if (view.count * view.length[d] > 20'000) view.length[d] = 1;
                view.count *= view.length[d];
                (view.stride[d] < 0 ? low : high) += static_cast<std::int64_t>(view.length[d] - 1) * view.stride[d];
            }
            view.begin = -low + static_cast<std::int64_t>(any(0, 1) * 8);
            std::vector<Word> x(static_cast<std::size_t>(view.begin + high + 1)), y(view.count), expected(view.count);
            for (Word& each : x) each = static_cast<Word>(numbers_());
            for (std::size_t i = 0; i < view.count; ++i) expected[i] = x[static_cast<std::size_t>(view(i))];
            // In several parts, as workers do.
            const std::size_t unit = operators::unit_of_moves(view, sizeof(Word)), units = view.count / unit;
            ASSERT_EQ(units * unit, view.count);
            const std::size_t first = any(0, units), second = any(first, units);
            operators::move_elements(x.data(), y.data(), view, 0, first * unit);
            operators::move_elements(x.data(), y.data(), view, first * unit, second * unit);
            operators::move_elements(x.data(), y.data(), view, second * unit, view.count);
            ASSERT_EQ(y, expected) << round;
        }
    }

    std::mt19937 numbers_{31};
    runtime machine_{runtime_options{.cpu_devices = 1, .cpu_workers = 3, .cuda = false}};
    single_stream on_{machine_.find("cpu:0")};
};

}  // namespace

TEST_F(movement_families, views_of_words_of_any_size) {
    move_some_views<std::uint8_t>();
    move_some_views<std::uint16_t>();
    move_some_views<std::uint32_t>();
    move_some_views<std::uint64_t>();
}

TEST_F(movement_families, transposes_of_large_tensors_are_divided_among_workers) {
    for (const auto& [shape, order] :
         std::vector<std::pair<lengths, std::vector<std::int64_t>>>{{{301, 517}, {1, 0}},
                                                                    {{2, 67, 41, 43}, {0, 2, 3, 1}},
                                                                    {{3, 50, 60, 33}, {3, 1, 2, 0}},
                                                                    {{20, 30, 40, 12}, {2, 1, 0, 3}},
                                                                    {{400, 500, 2}, {1, 0, 2}}}) {
        const lengths from = strides_of(shape);
        lengths to;
        for (const std::int64_t d : order) to.push_back(shape[static_cast<std::size_t>(d)]);
        const std::vector<float> made = answer("Transpose", {counted(shape)}, {{"perm", wholes(order)}});
        for_each_place(to, [&](std::size_t i, const lengths& at) {
            std::size_t place = 0;
            for (std::size_t d = 0; d < at.size(); ++d) place += at[d] * from[static_cast<std::size_t>(order[d])];
            ASSERT_EQ(made[i], static_cast<float>(place + 1));
        });
    }
}

TEST_F(movement_families, pads) {
    for (int round = 0; round < 200; ++round) {
        SCOPED_TRACE(round);
        const char* const modes[] = {"constant", "reflect", "edge", "wrap"};
        const std::string mode = modes[any(0, 3)];
        const lengths shape = some_lengths(any(1, 4)), from = strides_of(shape);
        std::vector<std::int64_t> begins(shape.size(), 0), ends(shape.size(), 0), core(shape.size());
        lengths to(shape.size());
        for (std::size_t d = 0; d < shape.size(); ++d) {
            const auto length = static_cast<std::int64_t>(shape[d]);
            if (any(0, 1) == 0) {
                begins[d] = static_cast<std::int64_t>(any(0, 5)) - 1;
                ends[d] = static_cast<std::int64_t>(any(0, 5)) - 1;
            }
            if (length + std::min<std::int64_t>(begins[d], 0) + std::min<std::int64_t>(ends[d], 0) < 1)
                begins[d] = ends[d] = 0;
            core[d] = length + std::min<std::int64_t>(begins[d], 0) + std::min<std::int64_t>(ends[d], 0);
            to[d] = static_cast<std::size_t>(length + begins[d] + ends[d]);
        }
        std::vector<std::int64_t> pads = begins;
        pads.insert(pads.end(), ends.begin(), ends.end());
        const std::vector<float> made =
            answer("Pad", {counted(shape), list(pads), number(-5.0f)}, {{"mode", text(mode)}});
        ASSERT_EQ(made.size(), product(to));
        for_each_place(to, [&](std::size_t i, const lengths& at) {
            std::size_t place = 0;
            bool is_inside = true;
            for (std::size_t d = 0; d < at.size(); ++d) {
                // Step by step from outside.
                std::int64_t p = static_cast<std::int64_t>(at[d]) - std::max<std::int64_t>(begins[d], 0);
                while (p < 0 || p >= core[d]) {
                    if (mode == "constant") {
                        is_inside = false;
                        break;
                    }
                    if (mode == "edge") p = p < 0 ? 0 : core[d] - 1;
                    if (mode == "wrap") p += p < 0 ? core[d] : -core[d];
                    if (mode == "reflect") p = core[d] == 1 ? 0 : p < 0 ? -p : 2 * (core[d] - 1) - p;
                }
                p += begins[d] < 0 ? -begins[d] : 0;
                if (is_inside) place += static_cast<std::size_t>(p) * from[d];
            }
            ASSERT_EQ(made[i], is_inside ? static_cast<float>(place + 1) : -5.0f) << mode << " " << i;
        });
    }
}

TEST_F(movement_families, elements_at_places_that_a_tensor_gives) {
    for (int round = 0; round < 150; ++round) {
        SCOPED_TRACE(round);
        const lengths shape = some_lengths(any(1, 4)), from = strides_of(shape);
        const std::size_t axis = any(0, shape.size() - 1);
        const any_tensor x = counted(shape);
        const auto axis_attribute = whole(static_cast<std::int64_t>(axis));
        {
            const lengths of_indices = any(0, 3) == 0 ? lengths{} : some_lengths(any(1, 2));
            const auto indices = places(product(of_indices), shape[axis]);
            const auto made = answer("Gather", {x, any_tensor(indices, of_indices)}, {{"axis", axis_attribute}});
            const std::size_t inner = from[axis], outer = product(shape) / inner / shape[axis];
            ASSERT_EQ(made.size(), outer * indices.size() * inner);
            for (std::size_t i = 0; i < made.size(); ++i) {
                const std::size_t o = i / inner / indices.size(), k = i / inner % indices.size();
                ASSERT_EQ(made[i], static_cast<float>((o * shape[axis] + place_of(indices[k], shape[axis])) * inner +
                                                      i % inner + 1));
            }
        }
        {
            lengths of_indices = shape;
            for (std::size_t d = 0; d < shape.size(); ++d) of_indices[d] = d == axis ? any(1, 9) : any(1, shape[d]);
            const auto indices = places(product(of_indices), shape[axis]);
            const auto made =
                answer("GatherElements", {x, any_tensor(indices, of_indices)}, {{"axis", axis_attribute}});
            for_each_place(of_indices, [&](std::size_t i, const lengths& at) {
                std::size_t place = 0;
                for (std::size_t d = 0; d < at.size(); ++d)
                    place += (d == axis ? place_of(indices[i], shape[axis]) : at[d]) * from[d];
                ASSERT_EQ(made[i], static_cast<float>(place + 1));
            });
        }
        {
            const std::size_t tuple = any(1, shape.size()), count = any(1, 30);
            std::vector<std::int64_t> indices;
            for (std::size_t i = 0; i < count; ++i)
                for (std::size_t d = 0; d < tuple; ++d) indices.push_back(places(1, shape[d])[0]);
            const auto made = answer("GatherND", {x, any_tensor(indices, {count, tuple})});
            const std::size_t inner = from[tuple - 1];
            ASSERT_EQ(made.size(), count * inner);
            for (std::size_t i = 0; i < made.size(); ++i) {
                std::size_t place = i % inner;
                for (std::size_t d = 0; d < tuple; ++d)
                    place += place_of(indices[i / inner * tuple + d], shape[d]) * from[d];
                ASSERT_EQ(made[i], static_cast<float>(place + 1));
            }
        }
    }
}

TEST_F(movement_families, elements_go_to_places_that_a_tensor_gives) {
    const std::string reductions[] = {"none", "add", "mul", "min", "max"};
    for (int round = 0; round < 200; ++round) {
        SCOPED_TRACE(round);
        const bool is_large = round % 20 == 0;  // enough for several workers
        const lengths shape = is_large ? lengths{300, 400} : some_lengths(any(1, 4)), strides = strides_of(shape);
        const std::string reduction = reductions[any(0, 4)];
        const attribute how = text(reduction);
        const auto expect = [&](const std::string& op, const any_tensor& indices, const lengths& of_updates,
                                const attributes& with, const auto& target_of) {
            std::vector<float> x(product(shape)), updates(product(of_updates));
            for (float& each : x) each = static_cast<float>(any(0, 8)) - 4;
            for (float& each : updates) each = any(0, 20) == 0 ? std::nanf("") : static_cast<float>(any(0, 8)) - 4;
            std::vector<float> expected = x;
            for (std::size_t i = 0; i < updates.size(); ++i) {
                float& there = expected[target_of(i)];
                const float a = there, b = updates[i];
                if (reduction == "none") there = b;
                if (reduction == "add") there = a + b;
                if (reduction == "mul") there = a * b;
                if (reduction == "min") there = std::isnan(a) || a < b ? a : b;
                if (reduction == "max") there = std::isnan(a) || b < a ? a : b;
            }
            const auto made =
                run_node({op, {any_tensor(x, shape), indices, any_tensor(updates, of_updates)}, with, {}, 18}, on_);
            const auto values = made[0].values<float>();
            for (std::size_t i = 0; i < values.size(); ++i)
                ASSERT_TRUE(values[i] == expected[i] || (std::isnan(values[i]) && std::isnan(expected[i])))
                    << op << " " << reduction << " " << i;
        };
        // Without a reduction no place is named twice.
        const auto distinct = [&](std::size_t count, std::size_t length) {
            std::vector<std::int64_t> made(length);
            std::iota(made.begin(), made.end(), -static_cast<std::int64_t>(length / 2));
            std::ranges::shuffle(made, numbers_);
            made.resize(std::min(count, length));
            return made;
        };
        const std::size_t axis = any(0, shape.size() - 1);
        {
            lengths of = shape;
            for (std::size_t d = 0; d < shape.size(); ++d) of[d] = any(is_large ? shape[d] - 3 : 1, shape[d]);
            if (reduction != "none" && !is_large) of[axis] = any(1, 12);
            const lengths from = strides_of(of);
            std::vector<std::int64_t> indices(product(of));
            for_each_place(of, [&](std::size_t i, const lengths& at) {
                if (reduction != "none") indices[i] = places(1, shape[axis])[0];
                if (reduction != "none" || at[axis] != 0) return;
                const auto line = distinct(of[axis], shape[axis]);
                for (std::size_t k = 0; k < of[axis]; ++k) indices[i + k * from[axis]] = line[k];
            });
            const bool is_narrow = any(0, 1) == 0;
            const std::vector<std::int32_t> narrow(indices.begin(), indices.end());
            expect("ScatterElements", is_narrow ? any_tensor(narrow, of) : any_tensor(indices, of), of,
                   {{"axis", whole(static_cast<std::int64_t>(axis))}, {"reduction", how}}, [&](std::size_t i) {
                       std::size_t place = 0;
                       for (std::size_t d = 0; d < of.size(); ++d)
                           place += (d == axis ? place_of(indices[i], shape[axis]) : i / from[d] % of[d]) * strides[d];
                       return place;
                   });
        }
        {
            const std::size_t tuple = any(1, shape.size()), inner = strides[tuple - 1], all = product(shape) / inner;
            std::vector<std::size_t> targets;
            if (reduction == "none") {
                for (const std::int64_t each : distinct(any(1, 30), all)) targets.push_back(place_of(each, all));
            } else {
                for (std::size_t i = any(1, 30); i > 0; --i) targets.push_back(any(0, all - 1));
            }
            std::vector<std::int64_t> indices;
            for (const std::size_t each : targets)
                for (std::size_t d = 0; d < tuple; ++d)
                    indices.push_back(static_cast<std::int64_t>(each * inner / strides[d] % shape[d]) -
                                      (any(0, 1) == 0 ? static_cast<std::int64_t>(shape[d]) : 0));
            lengths of{targets.size()};
            of.insert(of.end(), shape.begin() + static_cast<std::ptrdiff_t>(tuple), shape.end());
            expect("ScatterND", any_tensor(indices, {targets.size(), tuple}), of, {{"reduction", how}},
                   [&](std::size_t i) { return targets[i / inner] * inner + i % inner; });
        }
    }
}

TEST_F(movement_families, a_place_that_is_not_there_is_refused_wherever_it_is) {
    constexpr std::int64_t greatest = std::numeric_limits<std::int64_t>::max(),
                           least = std::numeric_limits<std::int64_t>::min();
    const any_tensor x = counted({7, 5, 3});
    for (const std::int64_t wrong : {std::int64_t{-8}, std::int64_t{7}, greatest, least, greatest - 3, least + 3}) {
        std::vector<std::int64_t> indices(50);
        indices[any(0, 49)] = wrong;
        EXPECT_THROW(answer("GatherElements", {x, any_tensor(indices, {50, 1, 1})}, {{"axis", whole(0)}}), error);
        EXPECT_THROW(answer("GatherND", {x, any_tensor(indices, {50, 1})}), error);
        EXPECT_THROW(answer("GatherND", {x, any_tensor(indices, {25, 2})}), error);
        EXPECT_THROW(answer("ScatterND", {x, any_tensor(indices, {25, 2}), counted({25, 3})}), error);
    }
}

TEST_F(movement_families, one_hot_triangles_and_tensors_put_together) {
    for (int round = 0; round < 150; ++round) {
        SCOPED_TRACE(round);
        {
            const lengths shape = some_lengths(any(0, 3));
            const std::size_t axis = any(0, shape.size()), depth = any(1, 12);
            // Some are no place, and some no whole number.
            std::vector<double> indices(product(shape));
            for (double& each : indices) each = static_cast<double>(any(0, 60)) / 2 - 15;
            lengths to = shape;
            to.insert(to.begin() + static_cast<std::ptrdiff_t>(axis), depth);
            const auto made = answer(
                "OneHot",
                {any_tensor(indices, shape), number(static_cast<std::int64_t>(depth)), list(std::vector<float>{-1, 3})},
                {{"axis", whole(static_cast<std::int64_t>(axis))}});
            const lengths from = strides_of(shape);
            for_each_place(to, [&](std::size_t i, const lengths& at) {
                std::size_t place = 0;
                for (std::size_t d = 0; d < shape.size(); ++d) place += at[d < axis ? d : d + 1] * from[d];
                const double whole_part = std::trunc(indices[place]);
                const double index = whole_part < 0 ? whole_part + static_cast<double>(depth) : whole_part;
                ASSERT_EQ(made[i], index == static_cast<double>(at[axis]) ? 3.0f : -1.0f);
            });
        }
        {
            lengths shape = some_lengths(any(2, 4));
            const std::size_t height = shape[shape.size() - 2], width = shape.back();
            std::int64_t diagonal = static_cast<std::int64_t>(any(0, 40)) - 20;
            if (any(0, 9) == 0) diagonal = std::numeric_limits<std::int64_t>::max();
            if (any(0, 9) == 0) diagonal = std::numeric_limits<std::int64_t>::min();
            const bool is_upper = any(0, 1) == 1;
            const auto made = answer("Trilu", {counted(shape), number(diagonal)}, {{"upper", whole(is_upper ? 1 : 0)}});
            for (std::size_t i = 0; i < made.size(); ++i) {
                const auto from_diagonal =
                    static_cast<std::int64_t>(i % width) - static_cast<std::int64_t>(i / width % height);
                const bool is_kept = is_upper ? from_diagonal >= diagonal : from_diagonal <= diagonal;
                ASSERT_EQ(made[i], is_kept ? static_cast<float>(i + 1) : 0.0f) << diagonal;
            }
        }
        {
            const lengths shape = some_lengths(any(1, 4));
            const std::size_t axis = any(0, shape.size() - 1), parts = any(1, 11);
            std::vector<any_tensor> inputs;
            std::vector<lengths> shapes;
            std::size_t all = 0;
            for (std::size_t k = 0; k < parts; ++k) {
                shapes.push_back(shape);
                shapes.back()[axis] = any(0, 4);
                all += shapes.back()[axis];
                inputs.push_back(counted(shapes.back()));
            }
            if (all == 0) continue;
            const auto made = answer("Concat", inputs, {{"axis", whole(static_cast<std::int64_t>(axis))}});
            lengths to = shape;
            to[axis] = all;
            for_each_place(to, [&](std::size_t i, const lengths& at) {
                std::size_t k = 0, first = 0;
                while (at[axis] >= first + shapes[k][axis]) first += shapes[k++][axis];
                const lengths from = strides_of(shapes[k]);
                std::size_t place = 0;
                for (std::size_t d = 0; d < at.size(); ++d) place += (at[d] - (d == axis ? first : 0)) * from[d];
                ASSERT_EQ(made[i], static_cast<float>(place + 1));
            });
        }
    }
}

}  // namespace sluice::nn::movement_families_tests
