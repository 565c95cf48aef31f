// SPDX-License-Identifier: Apache-2.0
// The trees of a file, in the form that TreeEnsemble has: tests of one number with a threshold, leaves, sums, a link.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sluice/io/dtype.hpp"
#include "sluice/nn/model.hpp"

namespace sluice::nn::trees {

// A node, or ~leaf.
using place = std::int32_t;

// The numbers of the modes of TreeEnsemble.
enum class test : std::uint8_t { less_equal, less, greater_equal, greater };

struct split {
    std::size_t feature = 0;
    test how = test::less_equal;
    double threshold = 0;
    place yes = 0, no = 0;
    bool missing_is_yes = false;
};

// Numbers from `first` on and below `end`.
struct interval {
    double first, end;
};

enum class sums : std::uint8_t { f64 = 1, f32 = 4 };  // the numbers of aggregate_function

// What the forest is, apart from its trees.
struct forest_form {
    std::string producer;  // "LightGBM v4"
    io::dtype input = io::dtype::f32;
    std::size_t features = 0, targets = 1, outputs = 1;
    sums in = sums::f64;
    std::vector<double> base = {};  // empty, or one for each target. f32 sums begin with them, f64 sums end with them
    bool has_wide_leaves = false;   // each leaf has a weight for every target
    std::string link = "IDENTITY";  // see tree_links.hpp
    double divisor = 1, factor = 1;
    std::vector<std::string> feature_names = {};  // empty, or one for each feature
};

class forest {
public:
    explicit forest(std::filesystem::path path) : path_(std::move(path)) {}

    // The first of this many nodes, which are to be set. Throws file_error for more than 2^30 in all.
    place add_nodes(std::size_t count);
    void set(place at, const split& to);
    // Numbers in one of the intervals, which are in order and do not touch, lead to `yes`, and others to `no`.
    void set(place at, std::size_t feature, std::span<const interval> all, place yes, place no, bool missing_is_yes);
    // A leaf with a weight of this target; of wide leaves there is a weight for every target, and `target` is nothing.
    place add_leaf(std::span<const double> weights, std::size_t target = 0);
    void add_root(place of_tree) { roots_.push_back(of_tree); }
    std::size_t trees() const { return roots_.size(); }

    // The network of all this. Throws file_error for thresholds or weights that are not numbers.
    model finish(const forest_form& form) &&;

private:
    class interval_search;

    [[noreturn]] void refuse(const std::string& field, const std::string& why) const;
    std::map<std::string, attribute, std::less<>> attributes_of(const forest_form& form) const;

    std::filesystem::path path_;
    std::vector<split> nodes_;
    std::vector<double> weights_;
    std::vector<std::int64_t> leaf_targets_;  // of each leaf
    std::vector<std::int64_t> roots_;
};

// Whether the nodes that the root (0) leads to are a tree: each is reached in one way, and places are of nodes and
// leaves that exist. Otherwise why not.
struct children {
    place yes, no;
};
std::string why_no_tree(std::span<const children> nodes, std::size_t leaves);

// Adjacent whole numbers of a list in order become one interval, [first, last + 1).
std::vector<interval> intervals_of(std::span<const std::uint32_t> numbers);

}  // namespace sluice::nn::trees
