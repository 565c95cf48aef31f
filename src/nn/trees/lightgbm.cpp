// SPDX-License-Identifier: Apache-2.0
// The text that LightGBM's save_model writes: lines of `key=values`, first of the model, then of each tree.
//
// A tree compares f64. Its predict takes numbers from -z to z as 0, where z is the f32 number nearest to 1e-35, and so
// do the tests here.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "forest.hpp"
#include "readers.hpp"
#include "sluice/base/file_error.hpp"
#include "sluice/base/printable.hpp"

namespace sluice::nn::trees {
namespace {

constexpr double zero_end = 1e-35F;
constexpr std::size_t most_of_text = std::size_t{1} << 30;

// Bits of decision_type.
constexpr std::uint32_t is_categorical = 1, is_default_left = 2;
enum class missing_kind : std::uint8_t { none, zero, nan };

std::vector<std::string_view> words_of(std::string_view line, char separator = ' ') {
    std::vector<std::string_view> made;
    while (!line.empty()) {
        const std::size_t end = std::min(line.find(separator), line.size());
        if (end != 0) made.push_back(line.substr(0, end));
        line.remove_prefix(std::min(end + 1, line.size()));
    }
    return made;
}

// The keys and values of the model, or of a tree; `where` is for messages.
class section {
public:
    section(const std::filesystem::path& path, std::string where) : path_(path), where_(std::move(where)) {}

    void add(std::string_view line) {
        const std::size_t at = line.find('=');
        values_[line.substr(0, at)] = at == std::string_view::npos ? std::string_view() : line.substr(at + 1);
    }
    bool has(std::string_view key) const { return values_.contains(key); }
    std::string_view text(std::string_view key) const {
        const auto found = values_.find(key);
        if (found == values_.end()) refuse(key, "is not there");
        return found->second;
    }
    template <typename T>
    std::vector<T> numbers(std::string_view key, std::size_t count) const {
        std::vector<T> made;
        const std::string_view line = text(key);
        for (const char *at = line.data(), *const end = at + line.size(); at != end;) {
            if (*at == ' ') {
                ++at;
                continue;
            }
            T value{};
            const auto [next, failure] = std::from_chars(at, end, value);
            if (failure != std::errc() || (next != end && *next != ' '))
                refuse(key, "has a word that is not a number of its type");
            made.push_back(value);
            at = next;
        }
        if (made.size() != count)
            refuse(key, "has " + std::to_string(made.size()) + " numbers instead of " + std::to_string(count));
        return made;
    }
    std::size_t count(std::string_view key, std::size_t least) const {
        const auto found = numbers<std::uint64_t>(key, 1)[0];
        if (found < least || found > most_of_text)
            refuse(key, "is not a number from " + std::to_string(least) + " to " + std::to_string(most_of_text));
        return found;
    }
    [[noreturn]] void refuse(std::string_view key, const std::string& why) const {
        throw file_error(path_, file_error::no_offset, where_ + printable(key, 100), why);
    }

private:
    const std::filesystem::path& path_;
    std::string where_;
    std::map<std::string_view, std::string_view, std::less<>> values_;
};

// Takes the lines of a file one after the other.
class lines {
public:
    explicit lines(std::string_view text) : left_(text) {}
    bool at_end() const { return left_.empty(); }
    std::string_view peek() const {
        std::string_view line = left_.substr(0, left_.find('\n'));
        if (line.ends_with('\r')) line.remove_suffix(1);
        return line;
    }
    std::string_view take() {
        const std::string_view line = peek();
        left_.remove_prefix(std::min(left_.find('\n'), left_.size() - 1) + 1);
        return line;
    }

private:
    std::string_view left_;
};

// --- nodes -----------------------------------------------------------------------------------------------------

// A test that LightGBM makes of numbers, as splits.
class numeric_test {
public:
    numeric_test(forest& to, place at, std::size_t feature, double threshold, place left, place right)
        : to_(to), at_(at), feature_(feature), threshold_(threshold), left_(left), right_(right) {}

    void set(missing_kind missing, bool default_left) {
        if (missing == missing_kind::zero) return default_left ? set_zero_left() : set_zero_right();
        const bool nan_is_left = missing == missing_kind::nan ? default_left : 0 <= threshold_;
        if (std::abs(threshold_) > zero_end) return less_equal(at_, threshold_, left_, right_, nan_is_left);
        threshold_ >= 0 ? less_equal(at_, zero_end, left_, right_, nan_is_left)
                        : less(at_, -zero_end, left_, right_, nan_is_left);
    }

private:
    // What is 0 or NaN goes left, although the threshold may be below 0.
    void set_zero_left() {
        if (threshold_ >= -zero_end) return less_equal(at_, std::max(threshold_, zero_end), left_, right_, true);
        const place below_zero = to_.add_nodes(2), up_to_zero = below_zero + 1;
        less_equal(at_, threshold_, left_, below_zero, true);
        less(below_zero, -zero_end, right_, up_to_zero, false);
        less_equal(up_to_zero, zero_end, left_, right_, false);
    }
    void set_zero_right() {
        if (threshold_ < -zero_end) return less_equal(at_, threshold_, left_, right_, false);
        if (threshold_ <= zero_end) return less(at_, -zero_end, left_, right_, false);
        const place below_zero = to_.add_nodes(2), above_zero = below_zero + 1;
        less_equal(at_, zero_end, below_zero, above_zero, false);
        less(below_zero, -zero_end, left_, right_, false);
        less_equal(above_zero, threshold_, left_, right_, false);
    }
    void less_equal(place at, double threshold, place yes, place no, bool missing_is_yes) {
        to_.set(at, {feature_, test::less_equal, threshold, yes, no, missing_is_yes});
    }
    void less(place at, double threshold, place yes, place no, bool missing_is_yes) {
        to_.set(at, {feature_, test::less, threshold, yes, no, missing_is_yes});
    }

    forest& to_;
    place at_;
    std::size_t feature_;
    double threshold_;
    place left_, right_;
};

// The categories whose bits are set. A number is rounded towards 0 first, so that category 0 begins above -1.
std::vector<interval> categories_of(std::span<const std::uint32_t> words) {
    std::vector<std::uint32_t> members;
    for (std::size_t i = 0; i < words.size(); ++i)
        for (std::uint32_t bit = 0; bit < 32; ++bit)
            if ((words[i] >> bit & 1) != 0) members.push_back(static_cast<std::uint32_t>(i * 32 + bit));
    std::vector<interval> made = intervals_of(members);
    if (!made.empty() && made[0].first == 0) made[0].first = std::nextafter(-1.0, 0.0);
    return made;
}

// --- trees -----------------------------------------------------------------------------------------------------

class lightgbm_tree {
public:
    lightgbm_tree(const section& of, std::size_t features, std::size_t target, forest& to)
        : of_(of), features_(features), target_(target), to_(to), leaves_(of.count("num_leaves", 1)) {}

    void read() {
        if (of_.has("is_linear") && of_.text("is_linear") != "0")
            of_.refuse("is_linear",
                       "says that its leaves are linear models: accepted are trees with linear_tree=false");
        const std::vector<double> values = of_.numbers<double>("leaf_value", leaves_);
        std::vector<place> leaves;
        for (const double each : values) leaves.push_back(to_.add_leaf({&each, 1}, target_));
        if (leaves_ == 1) return to_.add_root(leaves[0]);
        read_nodes(leaves);
    }

private:
    void read_nodes(const std::vector<place>& leaves) {
        const std::size_t count = leaves_ - 1;
        const auto left = of_.numbers<std::int32_t>("left_child", count),
                   right = of_.numbers<std::int32_t>("right_child", count);
        const auto features = of_.numbers<std::uint32_t>("split_feature", count);
        const auto thresholds = of_.numbers<double>("threshold", count);
        std::vector<std::uint32_t> decisions(count);
        if (of_.has("decision_type")) decisions = of_.numbers<std::uint32_t>("decision_type", count);
        read_categories();
        std::vector<children> all(count);
        for (std::size_t i = 0; i < count; ++i) all[i] = {left[i], right[i]};
        if (const std::string why = why_no_tree(all, leaves_); !why.empty()) of_.refuse("left_child", why);

        const place first = to_.add_nodes(count);
        const auto place_of = [&](std::int32_t child) {
            return child < 0 ? leaves[static_cast<std::size_t>(~child)] : first + child;
        };
        for (std::size_t i = 0; i < count; ++i) {
            if (features[i] >= features_) of_.refuse("split_feature", "has a feature that does not exist");
            const place at = first + static_cast<place>(i), yes = place_of(left[i]), no = place_of(right[i]);
            const std::uint32_t missing = decisions[i] >> 2;
            if (missing > 2) of_.refuse("decision_type", "has a value that does not exist");
            if ((decisions[i] & is_categorical) != 0) {
                to_.set(at, features[i], categories_of(words_at(thresholds[i])), yes, no, false);
            } else {
                if (std::isnan(thresholds[i])) of_.refuse("threshold", "is not a number");
                numeric_test(to_, at, features[i], thresholds[i], yes, no)
                    .set(static_cast<missing_kind>(missing), (decisions[i] & is_default_left) != 0);
            }
        }
        to_.add_root(first);
    }
    void read_categories() {
        const std::size_t sets = of_.count("num_cat", 0);
        if (sets == 0) return;
        begins_ = of_.numbers<std::uint32_t>("cat_boundaries", sets + 1);
        if (begins_[0] != 0 || !std::ranges::is_sorted(begins_)) of_.refuse("cat_boundaries", "is not in order");
        words_ = of_.numbers<std::uint32_t>("cat_threshold", begins_.back());
        is_used_.resize(sets);
    }
    // Each set is of one node: so the nodes that all sets become are no more than the file has bits.
    std::span<const std::uint32_t> words_at(double set) {
        const auto at = static_cast<std::size_t>(set >= 0 && set < static_cast<double>(is_used_.size()) ? set : no_set);
        if (at >= is_used_.size() || is_used_[at])
            of_.refuse("threshold", "names categories that do not exist, or twice");
        is_used_[at] = true;
        return std::span(words_).subspan(begins_[at], begins_[at + 1] - begins_[at]);
    }

    static constexpr double no_set = 4294967296.0;

    const section& of_;
    std::size_t features_, target_;
    forest& to_;
    std::size_t leaves_;
    std::vector<std::uint32_t> begins_, words_;
    std::vector<bool> is_used_;
};

// --- the model -------------------------------------------------------------------------------------------------

// As LightGBM reads it: the part after the point is divided by a power of 10.
double parameter_of(std::string_view text, const section& of) {
    const auto number = [&](std::string_view part) {
        std::uint64_t made = 0;
        const auto [end, failure] = std::from_chars(part.data(), part.data() + part.size(), made);
        if (failure != std::errc() || end != part.data() + part.size() || made > 1'000'000'000)
            of.refuse("objective", "has a sigmoid that is not a decimal number");
        return static_cast<double>(made);
    };
    const std::size_t exponent = std::min(text.find('e'), text.size()), point = std::min(text.find('.'), exponent);
    double value = number(text.substr(0, point));
    if (point < exponent) {
        const std::string_view part = text.substr(point + 1, exponent - point - 1);
        value += number(part) / std::pow(10.0, static_cast<double>(part.size()));
    }
    if (exponent == text.size()) return value;
    std::string_view scale = text.substr(exponent + 1);
    const bool is_small = scale.starts_with('-');
    if (is_small || scale.starts_with('+')) scale.remove_prefix(1);
    const double power = std::pow(10.0, std::min(number(scale), 300.0));
    return is_small ? value / power : value * power;
}

struct lightgbm_objective {
    std::string_view name;
    std::string_view link;
};
constexpr std::array<lightgbm_objective, 17> lightgbm_objectives{{{"regression", "IDENTITY"},
                                                                  {"regression_l1", "IDENTITY"},
                                                                  {"huber", "IDENTITY"},
                                                                  {"fair", "IDENTITY"},
                                                                  {"quantile", "IDENTITY"},
                                                                  {"mape", "IDENTITY"},
                                                                  {"poisson", "EXPONENT"},
                                                                  {"gamma", "EXPONENT"},
                                                                  {"tweedie", "EXPONENT"},
                                                                  {"binary", "SIGMOID"},
                                                                  {"multiclass", "SOFTMAX"},
                                                                  {"multiclassova", "SIGMOID"},
                                                                  {"cross_entropy", "SIGMOID"},
                                                                  {"cross_entropy_lambda", "LOG1P_EXPONENT"},
                                                                  {"lambdarank", "IDENTITY"},
                                                                  {"rank_xendcg", "IDENTITY"},
                                                                  {"custom", "IDENTITY"}}};

void read_lightgbm_objective(const section& head, forest_form& form) {
    if (!head.has("objective")) return;  // of the user's own: raw sums
    const std::vector<std::string_view> words = words_of(head.text("objective"));
    const auto found = words.empty() ? lightgbm_objectives.end()
                                     : std::ranges::find(lightgbm_objectives, words[0], &lightgbm_objective::name);
    if (found == lightgbm_objectives.end()) {
        std::string known;
        for (const lightgbm_objective& each : lightgbm_objectives)
            known += (known.empty() ? "" : ", ") + std::string(each.name);
        head.refuse("objective", "is " + in_quotes(head.text("objective")) + "; accepted are " + known);
    }
    form.link = found->link;
    for (const std::string_view each : std::span(words).subspan(1)) {
        if (each == "sqrt" && words[0].starts_with("regression")) {
            form.link = "SIGNED_SQUARE";
        } else if (each.starts_with("sigmoid:")) {
            form.factor = parameter_of(each.substr(8), head);
        } else if (!each.starts_with("num_class:")) {
            head.refuse("objective", "has " + in_quotes(each) + ", which is not known");
        }
    }
}

section read_head(lines& from, const std::filesystem::path& path) {
    section head(path, {});
    from.take();  // "tree"
    while (!from.at_end() && !from.peek().starts_with("Tree=") && from.peek() != "end of trees") {
        const std::string_view line = from.take();
        if (!line.empty()) head.add(line);
    }
    return head;
}

}  // namespace

model read_lightgbm(std::string_view text, const std::filesystem::path& path) {
    lines from(text);
    const section head = read_head(from, path);
    const std::string_view version = head.text("version");
    if (version != "v2" && version != "v3" && version != "v4")
        head.refuse("version", "is " + in_quotes(version) + "; v2, v3 and v4 are known");
    forest_form form{.producer = "LightGBM " + std::string(version), .input = io::dtype::f64};
    form.features = head.count("max_feature_idx", 0) + 1;
    form.targets = form.outputs =
        head.has("num_tree_per_iteration") ? head.count("num_tree_per_iteration", 1) : head.count("num_class", 1);
    for (const std::string_view each : words_of(head.text("feature_names"))) form.feature_names.emplace_back(each);
    if (form.feature_names.size() != form.features)
        head.refuse("feature_names", "has " + std::to_string(form.feature_names.size()) + " names for " +
                                         std::to_string(form.features) + " features");
    read_lightgbm_objective(head, form);

    forest made(path);
    while (!from.at_end() && from.peek() != "end of trees") {
        const std::string_view title = from.take();
        if (title.empty()) continue;
        if (!title.starts_with("Tree=")) head.refuse(title.substr(0, title.find('=')), "stands where a tree begins");
        section tree(path, printable(title, 40) + ": ");
        while (!from.at_end() && !from.peek().empty()) tree.add(from.take());
        lightgbm_tree(tree, form.features, made.trees() % form.targets, made).read();
    }
    if (from.at_end()) head.refuse({}, "is cut off: the line 'end of trees' is not there");
    if (made.trees() % form.targets != 0)
        head.refuse("num_tree_per_iteration", "does not divide the number of trees, " + std::to_string(made.trees()));
    if (head.has("average_output") && made.trees() != 0)
        form.divisor = static_cast<double>(made.trees() / form.targets);
    return std::move(made).finish(form);
}

}  // namespace sluice::nn::trees
