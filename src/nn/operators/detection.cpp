// SPDX-License-Identifier: Apache-2.0
// Operators that are for the host: their outputs depend on elements in ways that suit no kernel.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <optional>
#include <string>

#include "nn/operators/table.hpp"

namespace sluice::nn::operators {
namespace {

// --- non-maximum suppression -----------------------------------------------------------------------------------

std::vector<float> detection_floats(const node_call& in, std::size_t i) {
    const any_tensor& from = in.input(i);
    if (from.type() != io::dtype::f32) in.refuse_type(from);
    if (!from.is_on_host() && from.elements() != 0)
        in.refuse_unsupported("needs the numbers of input " + std::to_string(i) + " on the host, before it runs");
    std::vector<float> numbers(from.elements());
    if (!numbers.empty()) std::memcpy(numbers.data(), from.bytes().data(), from.size_bytes());
    return numbers;
}

// The number of an input that may be left out, or be empty.
std::optional<float> detection_threshold(const node_call& in, std::size_t i) {
    if (!in.has_input(i) || in.input(i).elements() == 0) return {};
    return static_cast<float>(in.host_number(i));
}

struct detection_box {
    float low[2], high[2];  // of x and y
};

detection_box box_of(const float* from, bool is_center) {
    detection_box made{};
    for (std::size_t k = 0; k < 2; ++k) {
        const float a = from[k], b = from[k + 2];
        made.low[k] = is_center ? a - b / 2 : std::min(a, b);
        made.high[k] = is_center ? a + b / 2 : std::max(a, b);
    }
    return made;
}

bool overlap_more(const detection_box& a, const detection_box& b, float threshold) {
    float common = 1, area_a = 1, area_b = 1;
    for (std::size_t k = 0; k < 2; ++k) {
        const float low = std::max(a.low[k], b.low[k]), high = std::min(a.high[k], b.high[k]);
        if (!(high > low)) return false;
        common *= high - low;
        area_a *= a.high[k] - a.low[k];
        area_b *= b.high[k] - b.low[k];
    }
    const float together = area_a + area_b - common;
    if (!(common > 0) || !(area_a > 0) || !(area_b > 0) || !(together > 0)) return false;
    return common / together > threshold;
}

// The boxes of one class that are kept, the best first.
std::vector<std::size_t> kept_boxes(const std::vector<detection_box>& boxes, const float* scores, std::size_t most,
                                    float overlap, std::optional<float> least_score) {
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < boxes.size(); ++i)
        if (!least_score || scores[i] > *least_score) order.push_back(i);
    // NaN comes last.
    const auto rank = [&](std::size_t i) {
        return std::isnan(scores[i]) ? -std::numeric_limits<float>::infinity() : scores[i];
    };
    std::ranges::sort(order,
                      [&](std::size_t a, std::size_t b) { return rank(a) != rank(b) ? rank(a) > rank(b) : a < b; });
    std::vector<std::size_t> kept;
    for (const std::size_t each : order) {
        if (kept.size() >= most) break;
        const bool is_hidden = std::ranges::any_of(
            kept, [&](std::size_t other) { return overlap_more(boxes[each], boxes[other], overlap); });
        if (!is_hidden) kept.push_back(each);
    }
    return kept;
}

void non_max_suppression(node_call& in) {
    const lengths &boxes = in.input(0).shape(), &scores = in.input(1).shape();
    if (boxes.size() != 3 || scores.size() != 3 || boxes[2] != 4 || boxes[0] != scores[0] || boxes[1] != scores[2]) {
        in.refuse_shapes("takes boxes [batches, boxes, 4] and scores [batches, classes, boxes], and is given " +
                         to_string(in.input(0)) + " and " + to_string(in.input(1)));
    }
    const std::int64_t form = in.integer("center_point_box", 0);
    if (form != 0 && form != 1) in.refuse("has a form of boxes that is neither 0 nor 1");
    const auto numbers = detection_floats(in, 0), marks = detection_floats(in, 1);
    std::size_t most = 0;
    if (const integers given = in.host_integers(2); !given.empty())
        most = static_cast<std::size_t>(std::max<std::int64_t>(given[0], 0));
    const float overlap = detection_threshold(in, 3).value_or(0);
    const auto least_score = detection_threshold(in, 4);

    const std::size_t batches = scores[0], classes = scores[1], count = scores[2];
    integers found;
    for (std::size_t b = 0; b < batches; ++b) {
        std::vector<detection_box> of_batch;
        for (std::size_t i = 0; i < count; ++i) of_batch.push_back(box_of(&numbers[(b * count + i) * 4], form == 1));
        for (std::size_t c = 0; c < classes; ++c) {
            const float* const of_class = marks.data() + (b * classes + c) * count;
            for (const std::size_t each : kept_boxes(of_batch, of_class, most, overlap, least_score))
                for (const std::size_t part : {b, c, each}) found.push_back(static_cast<std::int64_t>(part));
        }
    }
    const any_tensor& to = in.make_output(0, io::dtype::i64, {found.size() / 3, 3});
    if (in.where() == place::host && !found.empty()) std::ranges::copy(found, in.write<std::int64_t>(to));
}

// --- counts of sequences of words ------------------------------------------------------------------------------

// The sequences that begin with the numbers on the way from the root.
struct ngram_tree {
    struct part {
        std::map<std::int64_t, std::size_t> next;
        std::optional<std::size_t> ngram;  // that ends here
    };
    std::vector<part> parts{1};

    void add(const std::int64_t* numbers, std::size_t count, std::size_t ngram) {
        std::size_t at = 0;
        for (std::size_t i = 0; i < count; ++i) {
            const auto [found, is_new] = parts[at].next.emplace(numbers[i], parts.size());
            at = found->second;
            if (is_new) parts.emplace_back();
        }
        parts[at].ngram = ngram;
    }
};

struct ngram_settings {
    std::size_t least = 0, most = 0, skips = 0;
    std::string mode;
    integers columns;  // of each n-gram
    std::size_t width = 0;
    std::vector<float> weights;
    ngram_tree known;
};

constexpr std::int64_t most_ngram_columns = std::int64_t{1} << 28;

ngram_settings read_ngrams(const node_call& in) {
    ngram_settings made;
    const std::int64_t least = in.integer("min_gram_length", 0), most = in.integer("max_gram_length", 0),
                       skips = in.integer("max_skip_count", 0);
    if (least < 1 || most < least || skips < 0) in.refuse("has lengths or skips of n-grams that make no sense");
    made.least = static_cast<std::size_t>(least);
    made.most = static_cast<std::size_t>(most);
    made.skips = static_cast<std::size_t>(skips);
    made.mode = in.text("mode", "");
    if (made.mode != "TF" && made.mode != "IDF" && made.mode != "TFIDF")
        in.refuse("has the mode '" + made.mode + "'; 'TF', 'IDF' and 'TFIDF' are possible");
    if (in.has("pool_strings")) in.refuse_unsupported("counts strings, which are not supported");
    const integers pool = in.integer_list("pool_int64s"), begins = in.integer_list("ngram_counts");
    made.columns = in.integer_list("ngram_indexes");
    for (const std::int64_t each : made.columns) {
        if (each < 0 || each >= most_ngram_columns) in.refuse("has the column " + std::to_string(each));
        made.width = std::max(made.width, static_cast<std::size_t>(each) + 1);
    }
    made.weights = in.real_list("weights");
    if (!made.weights.empty() && made.weights.size() < made.width) in.refuse("has fewer weights than columns");
    std::size_t ngram = 0;
    for (std::size_t i = 0; i < begins.size(); ++i) {
        const std::int64_t begin = begins[i],
                           end = i + 1 < begins.size() ? begins[i + 1] : static_cast<std::int64_t>(pool.size());
        if (begin < 0 || end < begin || end > static_cast<std::int64_t>(pool.size()))
            in.refuse("has n-grams from " + std::to_string(begin) + " to " + std::to_string(end) + " of a pool of " +
                      std::to_string(pool.size()));
        const std::size_t size = i + 1, count = static_cast<std::size_t>(end - begin) / size;
        for (std::size_t k = 0; k < count; ++k, ++ngram)
            if (made.least <= size && size <= made.most)
                made.known.add(&pool[static_cast<std::size_t>(begin) + k * size], size, ngram);
    }
    if (ngram > made.columns.size()) in.refuse("has more n-grams than columns of n-grams");
    return made;
}

void count_ngrams(const ngram_settings& all_of, std::span<const std::int64_t> row, float* counts) {
    std::size_t least = all_of.least;
    // Greater distances have no second number in the row.
    const std::size_t most_distance = std::min(all_of.skips, row.size()) + 1;
    for (std::size_t distance = 1; distance <= most_distance; ++distance) {
        for (std::size_t start = 0; start + distance * (least - 1) < row.size(); ++start) {
            std::size_t at = 0, size = 1;
            for (std::size_t i = start; size <= all_of.most && i < row.size(); i += distance, ++size) {
                const auto& part = all_of.known.parts[at];
                const auto next = part.next.find(row[i]);
                if (next == part.next.end()) break;
                at = next->second;
                const auto ngram = all_of.known.parts[at].ngram;
                if (size >= least && ngram) ++counts[all_of.columns[*ngram]];
            }
        }
        // Single numbers are counted once: no distance changes them.
        if (least == 1 && ++least > all_of.most) break;
    }
}

void tf_idf(node_call& in) {
    const any_tensor& x = in.input(0);
    if (x.type() != io::dtype::i32 && x.type() != io::dtype::i64) in.refuse_type(x);
    if (x.shape().size() > 2) in.refuse_shapes("takes a row or rows of numbers, and is given " + to_string(x));
    const ngram_settings all_of = read_ngrams(in);
    const bool has_rows = x.shape().size() == 2;
    const std::size_t rows = has_rows ? x.shape()[0] : 1, size = x.shape().empty() ? 1 : x.shape().back();
    const any_tensor& y =
        in.make_output(0, io::dtype::f32, has_rows ? lengths{rows, all_of.width} : lengths{all_of.width});
    if (in.where() == place::nowhere || y.elements() == 0) return;
    if (in.where() == place::device) in.refuse_unsupported("counts numbers on the host only");
    const integers numbers = in.host_integers(0);
    auto* const counts = in.write<float>(y);
    for (std::size_t r = 0; r < rows; ++r) {
        float* const of_row = counts + r * all_of.width;
        count_ngrams(all_of, std::span(numbers).subspan(r * size, size), of_row);
        for (std::size_t i = 0; i < all_of.width && all_of.mode != "TF"; ++i) {
            const float weight = all_of.weights.empty() ? 1 : all_of.weights[i];
            of_row[i] = all_of.mode == "TFIDF" ? weight * of_row[i] : of_row[i] > 0 ? weight : 0;
        }
    }
}

}  // namespace

std::span<const definition> detection() {
    static const std::vector<definition> list = {
        {.name = "NonMaxSuppression",
         .least_inputs = 2,
         .most_inputs = 5,
         .most_outputs = 1,
         .attributes = {"center_point_box"},
         .run = &non_max_suppression,
         .host_inputs = all},
        {.name = "TfIdfVectorizer",
         .least_inputs = 1,
         .most_inputs = 1,
         .most_outputs = 1,
         .attributes = {"max_gram_length", "max_skip_count", "min_gram_length", "mode", "ngram_counts", "ngram_indexes",
                        "pool_int64s", "pool_strings", "weights"},
         .run = &tf_idf,
         .host_inputs = all},
    };
    return list;
}

}  // namespace sluice::nn::operators
