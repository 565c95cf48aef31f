// SPDX-License-Identifier: Apache-2.0
#include "serve/trial.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <exception>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "serve/process_ended.hpp"
#include "sluice/nn/run_limit.hpp"
#include "sluice/serve/tensor_view.hpp"

namespace sluice::serve {
namespace {

constexpr std::size_t most_elements = 1 << 22;  // a trial must not fill the memory
constexpr int timed_runs = 3;
constexpr std::chrono::milliseconds long_run{200};  // is not repeated
constexpr int runs_of_size = 5;                     // the first two prepare it
constexpr std::chrono::milliseconds long_batch{20};
// Of dimensions without a fixed length, the first that the model takes: some take only small ones, networks for images
// only those that are left after their poolings.
constexpr std::array<std::size_t, 4> free_lengths{8, 32, 224, 1};

// The same numbers in each process: a trial does not depend on chance.
class numbers {
public:
    std::uint32_t next() noexcept {
        state_ = state_ * 6364136223846793005ULL + 1442695040888963407ULL;
        return static_cast<std::uint32_t>(state_ >> 33);
    }
    float from_minus_one_to_one() noexcept { return static_cast<float>(next() & 0xffff) / 32768.f - 1.f; }

private:
    std::uint64_t state_ = 20;
};

template <typename T>
void put(std::byte* to, std::size_t at, T value) {
    std::memcpy(to + at * sizeof(T), &value, sizeof(T));
}

// Integers may be indices: 0 and 1 are in most ranges.
void fill(io::dtype type, std::byte* to, std::size_t elements, numbers& random) {
    for (std::size_t i = 0; i < elements; ++i) {
        switch (type) {
            case io::dtype::f16: put(to, i, half(random.from_minus_one_to_one())); break;
            case io::dtype::bf16: put(to, i, bfloat16(random.from_minus_one_to_one())); break;
            case io::dtype::f32: put(to, i, random.from_minus_one_to_one()); break;
            case io::dtype::f64: put(to, i, double{random.from_minus_one_to_one()}); break;
            default: to[i * io::size_of(type)] = std::byte(random.next() & 1);
        }
    }
}

// One row of each input. Empty when a shape is not known or too large.
std::vector<nn::any_tensor> make_row(const loaded_model& model, std::size_t free_length, bool has_rows,
                                     numbers& random) {
    std::vector<nn::any_tensor> row;
    for (const nn::value_info& input : model.inputs()) {
        if (!input.shape || input.shape->size() > tensor_shape::most_dimensions) return {};
        std::vector<std::size_t> shape;
        for (const nn::dimension& each : *input.shape) shape.push_back(each.length.value_or(free_length));
        if (has_rows) shape.front() = 1;
        const auto elements = io::element_count(shape);
        if (!elements || *elements > most_elements) return {};
        std::byte* to = nullptr;
        row.push_back(nn::any_tensor::make_on_host(input.type, std::move(shape), to));
        fill(input.type, to, *elements, random);
    }
    return row;
}

std::vector<nn::any_tensor> joined(const std::vector<std::vector<nn::any_tensor>>& rows) {
    std::vector<nn::any_tensor> all;
    for (std::size_t input = 0; input < rows.front().size(); ++input) {
        std::vector<std::size_t> shape = rows.front()[input].shape();
        shape.front() = rows.size();
        std::byte* to = nullptr;
        all.push_back(nn::any_tensor::make_on_host(rows.front()[input].type(), std::move(shape), to));
        for (const auto& row : rows) {
            const auto bytes = row[input].bytes();
            if (!bytes.empty()) std::memcpy(to, bytes.data(), bytes.size());
            to += bytes.size();
        }
    }
    return all;
}

void try_lengths(const loaded_model& model, std::size_t free_length, trial& found) {
    numbers random;
    const bool has_rows = has_first_dimensions(model) || model.rows().is_along_first_axes();
    const std::vector<nn::any_tensor> row = make_row(model, free_length, has_rows, random);
    if (row.size() != model.inputs().size()) return;
    auto best = std::chrono::nanoseconds::max();
    for (int i = 0; i < timed_runs; ++i) {
        const auto begin = std::chrono::steady_clock::now();
        model.run(row);
        best = std::min<std::chrono::nanoseconds>(best, std::chrono::steady_clock::now() - begin);
        if (best > long_run) break;
    }
    found.one_row = best;
    found.elements = 0;
    for (const nn::any_tensor& each : row) found.elements += each.elements();
}

// The best of some runs of a batch of this many equal rows. None: it takes long, or there is no such batch.
std::optional<std::chrono::nanoseconds> time_of(const loaded_model& model, std::size_t rows) {
    for (const std::size_t free_length : free_lengths) {
        numbers random;
        const std::vector<nn::any_tensor> row = make_row(model, free_length, true, random);
        if (row.empty()) return std::nullopt;
        for (const nn::any_tensor& each : row)
            if (each.elements() * rows > most_elements) return std::nullopt;
        try {
            const std::vector<nn::any_tensor> batch = joined(std::vector(rows, row));
            auto best = std::chrono::nanoseconds::max();
            for (int i = 0; i < runs_of_size; ++i) {
                const auto begin = std::chrono::steady_clock::now();
                model.run(batch);
                const auto time = std::chrono::steady_clock::now() - begin;
                best = std::min<std::chrono::nanoseconds>(best, time);
                if (i != 0 && time > long_run) break;
            }
            if (best > long_batch) return std::nullopt;
            return best;
        } catch (const process_ended&) {
            throw;
        } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): the next length, as in the trial
        }
    }
    return std::nullopt;
}

}  // namespace

bool has_first_dimensions(const loaded_model& model) {
    std::string name;
    const auto first_is_free = [&](const nn::value_info& each) {
        if (!each.shape || each.shape->empty() || each.shape->front().length) return false;
        const std::string& its = each.shape->front().name;
        if (name.empty()) name = its;
        return its.empty() || its == name;
    };
    return !model.inputs().empty() && !model.outputs().empty() && std::ranges::all_of(model.inputs(), first_is_free) &&
           std::ranges::all_of(model.outputs(), first_is_free);
}

trial try_model(const loaded_model& model) {
    trial found;
    std::exception_ptr too_large;
    std::size_t times_too_large = 0;
    for (const std::size_t free_length : free_lengths) {
        try {
            try_lengths(model, free_length, found);
            return found;
        } catch (const nn::run_too_large&) {
            too_large = std::current_exception();
            ++times_too_large;
        } catch (const process_ended&) {  // other lengths would end as many more
            throw;
        } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): the next length
        }
    }
    // The model would refuse each request.
    if (times_too_large == free_lengths.size()) std::rethrow_exception(too_large);
    return found;
}

std::vector<timed_size> time_sizes(const loaded_model& model, std::size_t most) {
    std::vector<timed_size> timed;
    for (const std::size_t rows : sizes_to_time(most)) {
        const auto time = time_of(model, rows);
        if (!time) break;
        timed.push_back({rows, *time});
    }
    return timed;
}

}  // namespace sluice::serve
