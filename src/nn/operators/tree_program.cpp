// SPDX-License-Identifier: Apache-2.0
#include "nn/operators/tree_program.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "nn/operators/launch_each.hpp"
#include "nn/operators/reduce.hpp"
#include "nn/operators/tree_loops.hpp"

namespace sluice::nn::operators {
namespace {

// --- the piece -------------------------------------------------------------------------------------------------

// Elements of an array in the piece.
struct packed_part {
    std::uint64_t at = 0, count = 0;
};

// A tree of few leaves: its nodes are sieves; other trees have none. Its leaves are numbered from `first_slot` on.
struct sifted_tree {
    std::uint32_t first_sieve = 0, sieves = 0, first_slot = 0, words = 0;  // words 0: to be walked through
};

// What the piece begins with.
struct packed_head {
    packed_part nodes, roots, weights_begin, weights, members, base;
    // Of a CPU, if it has them.
    packed_part steps, step_leaves, step_roots, trees, sieves, slots, slot_values;
    std::uint64_t targets = 0;
    tree_sum sum = tree_sum::sum;
    other_score other = other_score::absent;
    bool has_steps = false, is_strict = false;
    bool is_doubled =
        false;               // some tests are passed by NaN: each feature is there twice, and the second time with -inf
    bool is_single = false;  // one target, whose weights are added, and one weight for each leaf
    std::uint16_t unused = 0;  // no padding: a graph compares the bytes that it uploads
};
static_assert(std::has_unique_object_representations_v<packed_head>);

packed_head head_of(const any_tensor& image) {
    packed_head made;
    std::memcpy(&made, image.bytes().data(), sizeof(made));
    return made;
}

class tree_packer {
public:
    tree_packer() : bytes_(sizeof(packed_head), '\0') {}

    template <typename T>
    packed_part add(const std::vector<T>& from) {
        constexpr std::size_t alignment = 64;
        bytes_.resize((bytes_.size() + alignment - 1) / alignment * alignment);
        const packed_part made{bytes_.size(), from.size()};
        if (!from.empty()) bytes_.append(reinterpret_cast<const char*>(from.data()), from.size() * sizeof(T));
        return made;
    }
    any_tensor finish(const packed_head& head) && {
        std::memcpy(bytes_.data(), &head, sizeof(head));
        const std::size_t count = bytes_.size();
        return any_tensor(constant{io::dtype::u8, {count}, std::make_shared<const std::string>(std::move(bytes_))});
    }

private:
    std::string bytes_;
};

template <typename T>
const T* part_at(const std::byte* image, const packed_part& part) {
    return reinterpret_cast<const T*>(image + part.at);
}

// --- tests in one form -----------------------------------------------------------------------------------------

// x <= threshold, or x < threshold, of f32 x: passed by the same numbers as the node's test, or by the others.
struct ordered_test {
    float threshold;
    bool is_reversed;  // what fails it passes the node's test
    bool takes_nan;    // NaN is to pass it
};

constexpr float f32_infinity = std::numeric_limits<float>::infinity();

// The largest f32 that is no larger, and the smallest that is no smaller.
float at_most(double value) {
    const auto near = static_cast<float>(value);
    return static_cast<double>(near) > value ? std::nextafter(near, -f32_infinity) : near;
}
float at_least(double value) { return -at_most(-value); }

// None where no f32 threshold says the same.
std::optional<ordered_test> ordered(const tree_node& node, bool is_strict) {
    const bool asks_for_less = node.test == tree_test::less_equal || node.test == tree_test::less;
    const bool asks_for_more = node.test == tree_test::greater || node.test == tree_test::greater_equal;
    if ((!asks_for_less && !asks_for_more) || std::isnan(node.split)) return {};
    // x > s is what fails x <= s, and x >= s what fails x < s.
    const bool is_of_less = node.test == tree_test::less || node.test == tree_test::greater_equal;
    float threshold = 0;
    if (is_strict) {
        threshold = is_of_less ? at_least(node.split) : std::nextafter(at_most(node.split), f32_infinity);
        if (!is_of_less && at_most(node.split) == f32_infinity) return {};
    } else {
        threshold = at_most(node.split);
        if (is_of_less && static_cast<double>(threshold) == node.split) {
            if (threshold == -f32_infinity) return {};
            threshold = std::nextafter(threshold, -f32_infinity);
        }
    }
    // A device may take denormal numbers as 0, and the f64 that the node has is none.
    if (threshold != 0 && std::abs(threshold) < std::numeric_limits<float>::min()) return {};
    const ordered_test made{threshold, asks_for_more, node.missing_is_yes != asks_for_more};
    if (made.takes_nan && threshold == -f32_infinity && is_strict) return {};  // -inf does not pass it
    return made;
}

// --- what a CPU walks through ----------------------------------------------------------------------------------

class step_builder {
public:
    step_builder(const tree_tables& from, bool is_strict)
        : from_(from), is_strict_(is_strict), step_of_node_(from.nodes.size(), -1), step_of_leaf_(leaves_of(from), -1) {
        tests_.reserve(from.nodes.size());
        for (const tree_node& each : from.nodes) {
            const auto made = ordered(each, is_strict);
            if (!made) return;
            is_doubled_ = is_doubled_ || made->takes_nan;
            tests_.push_back(*made);
        }
        is_possible_ = true;
        for (const tree_place root : from.roots) add_tree(root);
    }
    bool is_possible() const { return is_possible_; }

    void pack(tree_packer& to, packed_head& head) const {
        head.has_steps = true;
        head.is_strict = is_strict_;
        head.is_doubled = is_doubled_;
        head.is_single = head.targets == 1 && from_.weights.size() == leaves_of(from_) && is_added_up(from_.sum);
        for (std::size_t leaf = 0; leaf < leaves_of(from_); ++leaf)
            head.is_single = head.is_single && from_.weights_begin[leaf] == static_cast<std::int32_t>(leaf);
        std::vector<double> values;
        if (head.is_single)
            for (const std::int32_t each : slots_)
                values.push_back(from_.weights[static_cast<std::size_t>(each)].weight);
        head.steps = to.add(steps_);
        head.step_leaves = to.add(step_leaves_);
        head.step_roots = to.add(step_roots_);
        head.trees = to.add(trees_);
        head.sieves = to.add(sieves_);
        head.slots = to.add(slots_);
        head.slot_values = to.add(values);
    }

private:
    static constexpr std::size_t most_sifted = 64;

    std::uint32_t feature_of(std::size_t node) const {
        const auto feature = static_cast<std::uint32_t>(from_.nodes[node].feature);
        return is_doubled_ ? 2 * feature + (tests_[node].takes_nan ? 1 : 0) : feature;
    }
    tree_place child(std::size_t node, bool is_passed) const {
        return is_passed != tests_[node].is_reversed ? from_.nodes[node].yes : from_.nodes[node].no;
    }
    std::int32_t& step_of(tree_place place) {
        return place >= 0 ? step_of_node_[static_cast<std::size_t>(place)]
                          : step_of_leaf_[static_cast<std::size_t>(~place)];
    }
    // Level by level: the first ones, which every walk takes, are neighbours.
    std::int32_t place_step(tree_place place, std::vector<tree_place>& open) {
        std::int32_t& known = step_of(place);
        if (known >= 0) return known;
        known = static_cast<std::int32_t>(steps_.size());
        steps_.push_back({0, 0, {known, known}});
        step_leaves_.push_back(place >= 0 ? -1 : ~place);
        if (place >= 0) open.push_back(place);
        return known;
    }
    void add_tree(tree_place root) {
        std::vector<tree_place> open;
        step_roots_.push_back(place_step(root, open));
        for (std::size_t i = 0; i < open.size(); ++i) {
            const auto node = static_cast<std::size_t>(open[i]);
            const std::int32_t passed = place_step(child(node, true), open),
                               failed = place_step(child(node, false), open);
            steps_[static_cast<std::size_t>(step_of_node_[node])] = {
                tests_[node].threshold, feature_of(node), {passed, failed}};
        }
        const std::size_t sieves = sieves_.size(), slots = slots_.size();
        // Trees that share nodes would have theirs many times.
        if (add_sieves(root, sieves, slots) && sieves_.size() <= from_.nodes.size() &&
            slots_.size() <= leaves_of(from_)) {
            const bool is_wide = slots_.size() - slots > most_sifted / 2;
            trees_.push_back({static_cast<std::uint32_t>(sieves), static_cast<std::uint32_t>(sieves_.size() - sieves),
                              static_cast<std::uint32_t>(slots), is_wide ? 2u : 1u});
        } else {
            sieves_.resize(sieves);
            slots_.resize(slots);
            trees_.emplace_back();
        }
    }
    // False where there are too many. The leaves of a test that is passed come first.
    bool add_sieves(tree_place at, std::size_t first_sieve, std::size_t first_slot) {
        if (at < 0) {
            slots_.push_back(~at);
            return slots_.size() - first_slot <= most_sifted;
        }
        const std::size_t own = sieves_.size(), node = static_cast<std::size_t>(at);
        if (own - first_sieve >= most_sifted) return false;
        sieves_.push_back({tests_[node].threshold, feature_of(node), {}});
        const std::size_t begin = slots_.size() - first_slot;
        if (!add_sieves(child(node, true), first_sieve, first_slot)) return false;
        std::uint64_t dropped = 0;
        for (std::size_t k = begin; k < slots_.size() - first_slot; ++k) dropped |= std::uint64_t{1} << k;
        sieves_[own].kept[0] = static_cast<std::uint32_t>(~dropped);
        sieves_[own].kept[1] = static_cast<std::uint32_t>(~dropped >> 32);
        return add_sieves(child(node, false), first_sieve, first_slot);
    }

    const tree_tables& from_;
    const bool is_strict_;
    bool is_possible_ = false, is_doubled_ = false;
    std::vector<ordered_test> tests_;
    std::vector<std::int32_t> step_of_node_, step_of_leaf_;
    std::vector<tree_step> steps_;
    std::vector<std::int32_t> step_leaves_;  // of each step the leaf, or -1
    std::vector<std::int32_t> step_roots_;
    std::vector<sifted_tree> trees_;
    std::vector<tree_sieve> sieves_;
    std::vector<std::int32_t> slots_;  // of each sifted tree, its leaves
};

// --- rows of a CPU ---------------------------------------------------------------------------------------------

struct tree_rows {
    const std::byte* image;
    const float* x;
    double* to;
    std::size_t columns, trees;

    // The numbers are rows times trees.
    static constexpr std::size_t numbers_of_part = 8'192;
    std::size_t host_unit() const { return trees * tree_lanes; }
    void operator()(std::size_t) const {}  // a GPU has a kernel of its own

    void on_host(std::size_t first, std::size_t last) const {
        constexpr std::size_t fewest_together = 6, usual = 4096;
        const std::size_t needed = (head().is_doubled ? 2 : 1) * columns * tree_lanes;
        std::array<float, usual> few;
        std::vector<float> many(needed > usual ? needed : 0);
        float* const numbers = needed > usual ? many.data() : few.data();
        for (std::size_t row = first / trees; row < last / trees; row += tree_lanes) {
            const std::size_t count = std::min(tree_lanes, last / trees - row);
            begin(row, count);
            if (count >= fewest_together) {
                together(row, count, numbers);
            } else {
                for (std::size_t r = 0; r < count; ++r) alone(row + r, numbers);
            }
            finish(row, count);
        }
    }

private:
    const packed_head& head() const { return *reinterpret_cast<const packed_head*>(image); }
    bool is_sum() const { return is_added_up(head().sum); }
    bool begins_with_base() const { return head().sum == tree_sum::rounded && head().base.count != 0; }
    void begin(std::size_t row, std::size_t count) const {
        if (begins_with_base()) {
            const auto* const base = part_at<double>(image, head().base);
            for (std::size_t r = 0; r < count; ++r) std::copy_n(base, head().targets, to + (row + r) * head().targets);
            return;
        }
        // NaN: no leaf has given anything.
        std::fill_n(to + row * head().targets, count * head().targets,
                    is_sum() ? 0 : std::numeric_limits<double>::quiet_NaN());
    }
    void finish(std::size_t row, std::size_t count) const {
        const auto* const base = part_at<double>(image, head().base);
        for (std::size_t r = 0; r < count; ++r) {
            double* const out = to + (row + r) * head().targets;
            for (std::size_t k = 0; k < head().targets; ++k) {
                if (head().sum == tree_sum::average) out[k] /= static_cast<double>(trees);
                if (!is_sum() && out[k] != out[k]) out[k] = 0;
                if (head().base.count != 0 && !begins_with_base()) out[k] += base[k];
            }
        }
    }
    void take(std::size_t row, std::int32_t leaf) const {
        const auto* const begins = part_at<std::int32_t>(image, head().weights_begin);
        const auto* const weights = part_at<tree_weight>(image, head().weights);
        double* const out = to + row * head().targets;
        for (std::int32_t k = begins[leaf]; k < begins[leaf + 1]; ++k) {
            const double weight = weights[k].weight;
            double& own = out[weights[k].target];
            if (is_sum()) {
                own = sum_of_trees(own, weight, head().sum);
            } else if (own != own || (head().sum == tree_sum::least ? weight < own : weight > own)) {
                own = weight;
            }
        }
    }

    // Beyond the last row they are zeros.
    void set_numbers(std::size_t row, std::size_t count, float* numbers) const {
        const std::size_t copies = head().is_doubled ? 2 : 1;
        for (std::size_t r = 0; r < tree_lanes; ++r) {
            const float* const from = x + (row + std::min(r, count - 1)) * columns;
            for (std::size_t c = 0; c < columns; ++c) {
                const float value = r < count ? from[c] : 0;
                numbers[c * copies * tree_lanes + r] = value;
                if (head().is_doubled) numbers[(c * 2 + 1) * tree_lanes + r] = value != value ? -f32_infinity : value;
            }
        }
    }
    void together(std::size_t row, std::size_t count, float* numbers) const {
        const tree_loops& loops = tree_loops_of_this_processor();
        const auto* const all = part_at<sifted_tree>(image, head().trees);
        const auto* const sieves = part_at<tree_sieve>(image, head().sieves);
        const auto* const slots = part_at<std::int32_t>(image, head().slots);
        const auto* const values = part_at<double>(image, head().slot_values);
        const auto* const steps = part_at<tree_step>(image, head().steps);
        const auto* const leaves = part_at<std::int32_t>(image, head().step_leaves);
        const auto* const roots = part_at<std::int32_t>(image, head().step_roots);
        set_numbers(row, count, numbers);
        std::int32_t at[tree_lanes];
        for (std::size_t tree = 0; tree < trees; ++tree) {
            const sifted_tree& one = all[tree];
            if (one.words == 0) {
                loops.walk_rows(steps, roots[tree], head().is_strict, numbers, at);
                for (std::size_t r = 0; r < count; ++r) take(row + r, leaves[at[r]]);
                continue;
            }
            loops.sift(sieves + one.first_sieve, one.sieves, one.words, head().is_strict, numbers, at);
            if (head().is_single) {
                const double* const own = values + one.first_slot;
                for (std::size_t r = 0; r < count; ++r) to[row + r] = sum_of_trees(to[row + r], own[at[r]], head().sum);
            } else {
                const std::int32_t* const own = slots + one.first_slot;
                for (std::size_t r = 0; r < count; ++r) take(row + r, own[at[r]]);
            }
        }
    }
    void alone(std::size_t row, float* numbers) const {
        const tree_loops& loops = tree_loops_of_this_processor();
        const auto* const steps = part_at<tree_step>(image, head().steps);
        const auto* const leaves = part_at<std::int32_t>(image, head().step_leaves);
        const auto* const roots = part_at<std::int32_t>(image, head().step_roots);
        const float* values = x + row * columns;
        if (head().is_doubled) {
            for (std::size_t c = 0; c < columns; ++c) {
                numbers[2 * c] = values[c];
                numbers[2 * c + 1] = values[c] != values[c] ? -f32_infinity : values[c];
            }
            values = numbers;
        }
        std::int32_t at[tree_lanes];
        for (std::size_t tree = 0; tree < trees; tree += tree_lanes) {
            const std::size_t count = std::min(tree_lanes, trees - tree);
            loops.walk_trees(steps, roots + tree, count, head().is_strict, values, at);
            for (std::size_t k = 0; k < count; ++k) take(row, leaves[at[k]]);
        }
    }
};

// Refuses nodes that test a feature that the rows do not have.
void require_features(const node_call& in, std::span<const tree_node> nodes, std::size_t columns) {
    for (const tree_node& each_node : nodes)
        if (each_node.feature < 0 || static_cast<std::size_t>(each_node.feature) >= columns)
            in.refuse("tests the feature " + std::to_string(each_node.feature) + " of " + std::to_string(columns));
}

}  // namespace

any_tensor pack_trees(const tree_tables& from, bool for_cpu) {
    tree_packer packer;
    packed_head head;
    head.nodes = packer.add(from.nodes);
    head.roots = packer.add(from.roots);
    head.weights_begin = packer.add(from.weights_begin);
    head.weights = packer.add(from.weights);
    head.members = packer.add(from.members);
    head.base = packer.add(from.base);
    head.targets = from.targets;
    head.sum = from.sum;
    head.other = from.other;
    if (for_cpu) {
        for (const bool is_strict : {false, true}) {
            const step_builder made(from, is_strict);
            if (!made.is_possible()) continue;
            made.pack(packer, head);
            break;
        }
    }
    return std::move(packer).finish(head);
}

other_score other_of_packed(const any_tensor& image) { return head_of(image).other; }

any_tensor score_packed(node_call& in, const feature_matrix& of, const any_tensor& image) {
    const packed_head head = head_of(image);
    const auto* const host = image.bytes().data();
    require_features(in, {part_at<tree_node>(host, head.nodes), head.nodes.count}, of.columns);
    const any_tensor scores = in.make(io::dtype::f64, {of.rows, head.targets});
    if (in.where() == place::nowhere) return scores;
    const auto* const at = in.read<std::byte>(image);
    const std::size_t trees = head.roots.count;
    if (!is_on_gpu(in) && of.x.type() == io::dtype::f32 && head.has_steps && trees != 0 && of.columns != 0) {
        each(in, of.rows * trees, tree_rows{at, in.read<float>(of.x), in.write<double>(scores), of.columns, trees},
             {&of.x, &image}, {&scores});
        return scores;
    }
    score_by_walks(in, of,
                   {.nodes = part_at<tree_node>(at, head.nodes),
                    .roots = part_at<tree_place>(at, head.roots),
                    .weights_begin = part_at<std::int32_t>(at, head.weights_begin),
                    .weights = part_at<tree_weight>(at, head.weights),
                    .members = part_at<double>(at, head.members),
                    .base = head.base.count != 0 ? part_at<double>(at, head.base) : nullptr,
                    .trees = trees,
                    .targets = head.targets,
                    .sum = head.sum},
                   image, scores);
    return scores;
}

}  // namespace sluice::nn::operators
