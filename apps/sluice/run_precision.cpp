// SPDX-License-Identifier: Apache-2.0
#include "run_precision.hpp"

#include <algorithm>
#include <cstring>
#include <iomanip>
#include <sstream>
#include <utility>

#include "sluice/base/error.hpp"
#include "sluice/base/printable.hpp"
#include "sluice/runtime/scheduling_policy.hpp"
#include "sluice/runtime/sync.hpp"

namespace sluice::app {
namespace {

constexpr std::size_t most_sample_rows = 256;

// How many rows all inputs have in common; 0 if the network's inputs are no rows.
std::size_t common_rows(const nn::model& of, const std::vector<nn::any_tensor>& inputs) {
    std::size_t rows = 0;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        const auto& shape = of.body.inputs[i].shape;
        if (!shape || shape->empty() || (*shape)[0].length || inputs[i].shape().empty()) return 0;
        if (i != 0 && inputs[i].shape()[0] != rows) return 0;
        rows = inputs[i].shape()[0];
    }
    return rows;
}

nn::any_tensor first_rows(const nn::any_tensor& of, std::size_t rows) {
    std::vector<std::size_t> shape = of.shape();
    shape[0] = rows;
    std::byte* to = nullptr;
    nn::any_tensor made = nn::any_tensor::make_on_host(of.type(), std::move(shape), to);
    if (made.size_bytes() != 0) std::memcpy(to, of.bytes().data(), made.size_bytes());
    return made;
}

std::string shown(const nn::output_difference& of) {
    std::ostringstream text;
    text << std::setprecision(3) << of.largest << ", " << of.relative * 100 << " % of the largest output";
    if (of.rows != 0) text << ", " << of.agreeing_rows << " of " << of.rows << " rows with the same largest output";
    return text.str();
}

std::string shown(const nn::rounding_report& of) {
    const std::size_t all = of.rounded + of.kept.size();
    std::string text = std::string(nn::to_string(of.precision)) + " (" + of.support.how + ")";
    if (of.precision == nn::precision::f32) return text;
    return text + ", " + std::to_string(of.rounded) + " of " + std::to_string(all) + " products and convolutions";
}

}  // namespace

void refuse_precision_of_ranks(const run_options& options) {
    if (!asks_for_precision(options)) return;
    throw error(errc::invalid_argument,
                "--precision " + options.precision +
                    " is for one process; with --distributed a network runs in f32 (accepted is f32)",
                {"run"});
}

nn::network make_in_precision(const run_options& options, nn::model from, const std::vector<nn::any_tensor>& inputs,
                              scheduling_policy& pool, std::optional<used_precision>& used) {
    if (options.precision.empty()) return sync(nn::make_network(std::move(from)), pool);
    used_precision made;
    made.asked = options.precision;
    made.rows = common_rows(from, inputs);
    made.sample_rows = std::min(made.rows, most_sample_rows);
    std::vector<nn::any_tensor> sample = inputs;
    if (made.sample_rows < made.rows)
        for (nn::any_tensor& each : sample) each = first_rows(each, made.sample_rows);
    nn::precision what = nn::precision::f32;
    if (options.precision == "auto") {
        nn::precision_choice choice = nn::choose_precision(from, sample, pool);
        what = choice.chosen;
        made.measured = std::move(choice.measured);
    } else {
        what = nn::precision_from_string(options.precision).value();
    }
    nn::network ready = sync(nn::make_network(from, {.precision = what}), pool);
    made.rounding = ready.rounding();
    if (what != nn::precision::f32) {
        const nn::network exact = sync(nn::make_network(std::move(from)), pool);
        const auto expected = sync(exact.run(sample), pool);
        made.difference = nn::difference_of(expected, sync(ready.run(sample), pool));
    }
    used = std::move(made);
    return ready;
}

std::string to_text(const used_precision& used) {
    std::ostringstream text;
    text << "precision           " << shown(used.rounding) << '\n';
    for (const std::string& each : used.rounding.kept) text << "                    in f32: " << each << '\n';
    const std::string sample =
        used.rows == 0 ? "the inputs" : std::to_string(used.sample_rows) + " of " + std::to_string(used.rows) + " rows";
    if (used.rounding.precision != nn::precision::f32)
        text << "                    differs from f32 by " << shown(used.difference) << ", on " << sample << '\n';
    for (const nn::precision_measurement& each : used.measured) {
        text << "                    " << nn::to_string(each.rounding.precision) << ": " << std::fixed
             << std::setprecision(3) << each.seconds * 1e3 << " ms";
        if (each.rounding.precision != nn::precision::f32)
            text << (each.is_accurate ? ", " : ", too inaccurate: ") << shown(each.difference);
        text << '\n';
    }
    if (!used.measured.empty()) {
        text << "                    auto takes the fastest that differs by at most 1 % and keeps each row's largest "
                "output, on "
             << sample << '\n';
    }
    return text.str();
}

}  // namespace sluice::app
