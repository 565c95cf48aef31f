// SPDX-License-Identifier: Apache-2.0
#include "tensor_difference.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "network_files.hpp"

namespace sluice::app {
namespace {

class numbers_of {
public:
    explicit numbers_of(const nn::any_tensor& x) : bytes_(x.bytes()), type_(x.type()), size_(io::size_of(x.type())) {}

    long double operator[](std::size_t i) const { return number_at(bytes_.data() + i * size_, type_); }

private:
    std::span<const std::byte> bytes_;
    io::dtype type_;
    std::size_t size_;
};

// A difference is not rounded to none.
double rounded(long double difference) {
    const auto made = static_cast<double>(difference);
    return made == 0 && difference != 0 ? std::numeric_limits<double>::denorm_min() : made;
}

// Of which NaN counts as the largest.
bool is_larger(double left, double right) { return std::isnan(left) ? !std::isnan(right) : left > right; }

std::vector<std::size_t> place_of(std::size_t element, const std::vector<std::size_t>& shape) {
    std::vector<std::size_t> place(shape.size());
    for (std::size_t d = shape.size(); d-- > 0; element /= shape[d]) place[d] = element % shape[d];
    return place;
}

bool is_floating_point(io::dtype type) {
    using enum io::dtype;
    return type == f16 || type == bf16 || type == f32 || type == f64;
}

// None for a row with a NaN.
std::optional<std::size_t> largest_place(const numbers_of& numbers, std::size_t first, std::size_t count) {
    std::size_t best = 0;
    for (std::size_t i = 0; i < count; ++i) {
        if (std::isnan(numbers[first + i])) return {};
        if (numbers[first + i] > numbers[first + best]) best = i;
    }
    return best;
}

}  // namespace

tensor_difference difference_of(const nn::any_tensor& a, const nn::any_tensor& b) {
    const numbers_of as(a), bs(b);
    tensor_difference made;
    std::size_t largest = 0;
    for (std::size_t i = 0; i < a.elements(); ++i) {
        const long double left = as[i], right = bs[i];
        if (left == right) continue;  // infinities too
        ++made.differing;
        const long double distance = std::abs(left - right);
        const double absolute = rounded(distance);
        const double relative = rounded(distance / std::max(std::abs(left), std::abs(right)));
        if (is_larger(absolute, made.absolute)) {
            made.absolute = absolute;
            largest = i;
        }
        // Infinity next to a finite number: as far apart as numbers can be.
        const double bounded =
            std::isnan(relative) && std::isinf(absolute) ? std::numeric_limits<double>::infinity() : relative;
        if (is_larger(bounded, made.relative)) made.relative = bounded;
    }
    if (made.differing != 0) {
        made.place = place_of(largest, a.shape());
        made.a = as[largest];
        made.b = bs[largest];
    }
    const bool is_classifier = is_floating_point(a.type()) && is_floating_point(b.type()) && a.shape().size() == 2 &&
                               a.shape()[1] >= 2 && a.shape()[0] > 0;
    if (!is_classifier) return made;
    made.agreeing_rows = 0;
    for (std::size_t row = 0; row < a.shape()[0]; ++row) {
        const auto left = largest_place(as, row * a.shape()[1], a.shape()[1]);
        if (left && left == largest_place(bs, row * a.shape()[1], a.shape()[1])) ++*made.agreeing_rows;
    }
    return made;
}

}  // namespace sluice::app
