// SPDX-License-Identifier: Apache-2.0
#include "forest.hpp"

#include <cmath>
#include <limits>
#include <memory>

#include "sluice/base/file_error.hpp"

namespace sluice::nn::trees {
namespace {

constexpr std::size_t most_nodes = std::size_t{1} << 30;
constexpr std::size_t most_outputs = std::size_t{1} << 20;
constexpr double infinity = std::numeric_limits<double>::infinity();

template <typename T>
constant tensor_of(const std::vector<T>& values) {
    return {
        io::dtype_of<T>,
        {values.size()},
        std::make_shared<const std::string>(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T))};
}

}  // namespace

// A search for the interval that has a number. The bounds of all intervals are b[0] < b[1] < ...; a number that k of
// them do not exceed is in an interval if k is odd.
class forest::interval_search {
public:
    interval_search(forest& to, std::size_t feature, std::vector<double> bounds, place yes, place no,
                    bool missing_is_yes)
        : to_(to), feature_(feature), bounds_(std::move(bounds)), yes_(yes), no_(no), missing_is_yes_(missing_is_yes) {}

    // Sets the node to the search among the bounds [begin, end).
    void set(place at, std::size_t begin, std::size_t end) {
        const std::size_t middle = begin + (end - begin) / 2;
        const place below = child(begin, middle), above = child(middle + 1, end);
        to_.set(at, {feature_, test::less, bounds_[middle], below, above, leads_there(begin, middle)});
    }

private:
    bool is_inside(std::size_t bounds_below) const { return bounds_below % 2 == 1; }
    // Where missing numbers go: where this part has an end of the kind that they are to reach.
    bool leads_there(std::size_t begin, std::size_t end) const {
        return begin < end || is_inside(begin) == missing_is_yes_;
    }
    place child(std::size_t begin, std::size_t end) {
        if (begin == end) return is_inside(begin) ? yes_ : no_;
        const place made = to_.add_nodes(1);
        set(made, begin, end);
        return made;
    }

    forest& to_;
    std::size_t feature_;
    std::vector<double> bounds_;
    place yes_, no_;
    bool missing_is_yes_;
};

void forest::refuse(const std::string& field, const std::string& why) const {
    throw file_error(path_, file_error::no_offset, field, why);
}

place forest::add_nodes(std::size_t count) {
    if (count > most_nodes - nodes_.size()) refuse({}, "has more than 2^30 nodes");
    const auto first = static_cast<place>(nodes_.size());
    nodes_.resize(nodes_.size() + count);
    return first;
}

void forest::set(place at, const split& to) {
    if (std::isnan(to.threshold)) refuse("threshold", "is not a number");
    nodes_[static_cast<std::size_t>(at)] = to;
}

void forest::set(place at, std::size_t feature, std::span<const interval> all, place yes, place no,
                 bool missing_is_yes) {
    std::vector<double> bounds;
    for (const interval& each : all) {
        bounds.push_back(each.first);
        bounds.push_back(each.end);
    }
    if (bounds.empty()) return set(at, {feature, test::less, -infinity, yes, no, missing_is_yes});
    const std::size_t count = bounds.size();
    interval_search(*this, feature, std::move(bounds), yes, no, missing_is_yes).set(at, 0, count);
}

place forest::add_leaf(std::span<const double> weights, std::size_t target) {
    if (leaf_targets_.size() == most_nodes) refuse({}, "has more than 2^30 leaves");
    for (const double each : weights) {
        if (std::isnan(each)) refuse("leaf value", "is not a number");
        weights_.push_back(each);
    }
    leaf_targets_.push_back(static_cast<std::int64_t>(target));
    return ~static_cast<place>(leaf_targets_.size() - 1);
}

std::map<std::string, attribute, std::less<>> forest::attributes_of(const forest_form& form) const {
    std::vector<std::int64_t> features, yes, no, yes_is_leaf, no_is_leaf, missing;
    std::vector<std::uint8_t> modes;
    std::vector<double> thresholds;
    const auto add_child = [](place to, std::vector<std::int64_t>& places, std::vector<std::int64_t>& is_leaf) {
        places.push_back(to < 0 ? ~to : to);
        is_leaf.push_back(to < 0 ? 1 : 0);
    };
    for (const split& each : nodes_) {
        features.push_back(static_cast<std::int64_t>(each.feature));
        modes.push_back(static_cast<std::uint8_t>(each.how));
        thresholds.push_back(each.threshold);
        missing.push_back(each.missing_is_yes ? 1 : 0);
        add_child(each.yes, yes, yes_is_leaf);
        add_child(each.no, no, no_is_leaf);
    }
    std::map<std::string, attribute, std::less<>> made = {{"n_targets", static_cast<std::int64_t>(form.targets)},
                                                          {"aggregate_function", static_cast<std::int64_t>(form.in)},
                                                          {"nodes_featureids", std::move(features)},
                                                          {"nodes_modes", tensor_of(modes)},
                                                          {"nodes_splits", tensor_of(thresholds)},
                                                          {"nodes_truenodeids", std::move(yes)},
                                                          {"nodes_falsenodeids", std::move(no)},
                                                          {"nodes_trueleafs", std::move(yes_is_leaf)},
                                                          {"nodes_falseleafs", std::move(no_is_leaf)},
                                                          {"nodes_missing_value_tracks_true", std::move(missing)},
                                                          {"leaf_weights", tensor_of(weights_)},
                                                          {"tree_roots", roots_},
                                                          {"link", form.link}};
    if (!form.has_wide_leaves) made.emplace("leaf_targetids", leaf_targets_);
    if (!form.base.empty()) made.emplace("base_values", tensor_of(form.base));
    if (form.divisor != 1) made.emplace("divisor", tensor_of(std::vector{form.divisor}));
    if (form.factor != 1) made.emplace("factor", tensor_of(std::vector{form.factor}));
    if (!form.feature_names.empty()) made.emplace("feature_names", form.feature_names);
    return made;
}

model forest::finish(const forest_form& form) && {
    if (form.features == 0) refuse({}, "has no features");
    if (form.outputs > most_outputs) refuse({}, "has more than 2^20 outputs");
    for (const double each : form.base)
        if (std::isnan(each)) refuse("base score", "is not a number");
    const auto rows_of = [](std::string name, io::dtype type, std::size_t width) {
        return value_info{std::move(name), type, std::vector<dimension>{{{}, "batch"}, {width, {}}}};
    };
    model made;
    made.path = path_;
    made.opsets = {{"sluice", 1}};
    made.producer = form.producer;
    made.body.inputs = {rows_of("input", form.input, form.features)};
    made.body.outputs = {rows_of("predictions", form.in == sums::f32 ? io::dtype::f32 : io::dtype::f64, form.outputs)};
    made.body.nodes.push_back({"trees", "sluice", "TreeEnsemble", {"input"}, {"predictions"}, attributes_of(form)});
    check(made);
    return made;
}

std::string why_no_tree(std::span<const children> nodes, std::size_t leaves) {
    std::vector<bool> is_seen(nodes.size()), is_seen_leaf(leaves);
    const auto seen_of = [&](place of) -> std::vector<bool>& { return of < 0 ? is_seen_leaf : is_seen; };
    const auto index_of = [](place of) { return static_cast<std::size_t>(of < 0 ? ~of : of); };
    for (const children& of : nodes)
        for (const place each : {of.yes, of.no})
            if (index_of(each) >= seen_of(each).size()) return "has a child that does not exist";
    std::vector<std::size_t> open{0};
    if (!nodes.empty()) is_seen[0] = true;
    while (!open.empty() && !nodes.empty()) {
        const children of = nodes[open.back()];
        open.pop_back();
        for (const place each : {of.yes, of.no}) {
            const std::size_t at = index_of(each);
            std::vector<bool>& seen = seen_of(each);
            if (seen[at]) return "reaches a node or a leaf in two ways, and so is not a tree";
            seen[at] = true;
            if (each >= 0) open.push_back(at);
        }
    }
    return {};
}

std::vector<interval> intervals_of(std::span<const std::uint32_t> numbers) {
    std::vector<interval> made;
    for (const std::uint32_t each : numbers) {
        const double first = each;
        if (!made.empty() && made.back().end == first) {
            made.back().end = first + 1;
        } else {
            made.push_back({first, first + 1});
        }
    }
    return made;
}

}  // namespace sluice::nn::trees
