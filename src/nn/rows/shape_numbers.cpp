// SPDX-License-Identifier: Apache-2.0
#include "nn/rows/shape_numbers.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <string_view>

#include "nn/operators/node_call.hpp"
#include "sluice/base/error.hpp"

namespace sluice::nn::rows {
namespace {

using detail::node_to_try;

constexpr std::size_t most_numbers = 4096;
constexpr int bits_of_fractions = 8;  // of floating-point numbers that are taken as amounts

bool is_real(io::dtype type) {
    using enum io::dtype;
    return type == f32 || type == f64 || type == f16 || type == bf16;
}

std::optional<amount> amount_of(double value) {
    const double scaled = std::ldexp(value, bits_of_fractions);
    if (!(std::abs(scaled) < std::ldexp(1.0, 52)) || std::trunc(scaled) != scaled) return {};
    return amount(static_cast<std::int64_t>(scaled)) / amount(std::int64_t{1} << bits_of_fractions);
}

// A value with these elements. `shape` are numbers.
followed value_of(io::dtype type, std::vector<std::size_t> shape, amounts elements) {
    followed made;
    made.type = type;
    made.shape.emplace(shape.begin(), shape.end());
    const bool has_rows = std::ranges::any_of(elements, [](const amount& each) { return each.depends_on_rows(); });
    const bool is_known =
        !is_real(type) && std::ranges::all_of(elements, [](const amount& each) { return each.number().has_value(); });
    if (is_known) {
        std::byte* to = nullptr;
        made.known = any_tensor::make_on_host(type, std::move(shape), to);
        operators::with_type(type, [&]<typename T>() {
            for (std::size_t i = 0; i < elements.size(); ++i) {
                const T one = static_cast<T>(static_cast<operators::computed<T>>(*elements[i].number()));
                std::memcpy(to + i * sizeof(T), &one, sizeof(T));
            }
        });
        return made;
    }
    made.what = has_rows ? company::counts : company::alike;
    made.elements = std::move(elements);
    return made;
}

// --- of shapes ------------------------------------------------------------------------------------------------

followed shape_as_numbers(const node& which, const amounts& shape) {
    const auto rank = static_cast<std::int64_t>(shape.size());
    const auto place = [&](std::string_view name, std::int64_t otherwise) {
        const auto* const given = which.find<std::int64_t>(name);
        const std::int64_t at = given == nullptr ? otherwise : *given < 0 ? *given + rank : *given;
        return std::clamp<std::int64_t>(at, 0, rank);
    };
    const std::int64_t begin = place("start", 0), end = std::max(place("end", rank), begin);
    return value_of(io::dtype::i64, {static_cast<std::size_t>(end - begin)},
                    amounts(shape.begin() + begin, shape.begin() + end));
}

// --- operators that move numbers --------------------------------------------------------------------------------

// The inputs whose elements move; the others say where to.
constexpr std::size_t all_inputs = ~std::size_t{0};
const std::map<std::string_view, std::size_t> moving{
    {"Gather", 1},  {"Slice", 1},     {"Unsqueeze", 1}, {"Squeeze", 1},         {"Reshape", 1}, {"Identity", 1},
    {"Flatten", 1}, {"Transpose", 1}, {"Expand", 1},    {"Concat", all_inputs}, {"Tile", 1}};

// The operator itself moves the places of the numbers in a list.
std::optional<followed> moved(const node_to_try& which, std::span<const followed* const> inputs, std::size_t movable) {
    amounts all;
    std::vector<any_tensor> places;
    io::dtype type = io::dtype::i64;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        if (inputs[i] == nullptr) {
            places.emplace_back();
            continue;
        }
        if (i >= movable) {
            if (!inputs[i]->known) return {};
            places.push_back(inputs[i]->known);
            continue;
        }
        const auto elements = elements_of(*inputs[i]);
        if (!elements || !inputs[i]->shape) return {};
        type = inputs[i]->type;
        std::vector<std::size_t> shape;
        for (const amount& each : *inputs[i]->shape) {
            if (!each.number()) return {};
            shape.push_back(static_cast<std::size_t>(*each.number()));
        }
        std::vector<std::int64_t> its;
        for (const amount& each : *elements) {
            its.push_back(static_cast<std::int64_t>(all.size()));
            all.push_back(each);
        }
        places.emplace_back(its, std::move(shape));
    }
    const auto outputs = detail::try_node(which, places);
    if (!outputs || outputs->size() != 1 || outputs->front().elements() > most_numbers) return {};
    if (outputs->front().elements() != 0 && !outputs->front().is_on_host()) return {};
    amounts made;
    if (outputs->front().elements() != 0)
        for (const std::int64_t at : outputs->front().values<std::int64_t>())
            made.push_back(all[static_cast<std::size_t>(at)]);
    return value_of(type, outputs->front().shape(), std::move(made));
}

// --- arithmetic ---------------------------------------------------------------------------------------------------

// Whether numbers of the type have exactly this value, with up to 65,536 rows. Others are rounded: in f32 1 / 49 * 49
// is less than 1, and 16403 * 1023 / 16403 less than 1023.
bool is_exact(io::dtype type, const amount& of) {
    if (!is_real(type)) return true;
    const int digits = type == io::dtype::f64 ? 53 : type == io::dtype::f32 ? 24 : type == io::dtype::f16 ? 11 : 8;
    const int bits = of.powers().empty() ? digits : digits - 16;
    const bool is_divided_by_symbols =
        std::ranges::any_of(of.powers(), [](const auto& each) { return each.second < 0; });
    return bits > 0 && !is_divided_by_symbols && std::has_single_bit(static_cast<std::uint64_t>(of.divisor())) &&
           std::abs(of.factor()) <= std::int64_t{1} << bits;
}

class arithmetic {
public:
    arithmetic(const node& which, io::dtype type, symbol_table& symbols)
        : op_(which.op), type_(type), symbols_(symbols) {}

    std::optional<amount> one(const amount& a) const {
        if (op_ == "Neg") return a.negated();
        if (op_ == "Not" && a.number()) return amount(a.is(0) ? 1 : 0);
        if (op_ == "Abs" && symbols_.has_sign(a) && !a.is_negative()) return a;
        if ((op_ == "Floor" || op_ == "Ceil" || op_ == "Round") && a.is_whole()) return a;
        return unknown({a}, symbols_.has_sign(a) && !a.is_negative());
    }

    std::optional<amount> two(const amount& a, const amount& b) const {
        if (op_ == "Mul") {
            if (const amount made = a * b; is_exact(type_, made)) return made;
            return unknown({a, b}, is_length(a) && is_length(b));
        }
        if (op_ == "Add" || op_ == "Sub") {
            const auto sum = amount::sum(a, op_ == "Add" ? b : b.negated());
            if (sum && is_exact(type_, *sum)) return sum;
            return unknown({a, b}, op_ == "Add" && is_length(a) && is_length(b));
        }
        if (op_ == "Div") return quotient(a, b);
        if (op_ == "Max" || op_ == "Min") {
            if (a == b) return a;
            if (a.number() && b.number()) return (*a.number() < *b.number()) == (op_ == "Min") ? a : b;
            if (is_at_least(a, b)) return op_ == "Max" ? a : b;
            if (is_at_least(b, a)) return op_ == "Max" ? b : a;
            return unknown({a, b}, is_length(a) && is_length(b));
        }
        if (op_ == "And" || op_ == "Or") {
            if (a.number() && b.number())
                return amount((op_ == "And" ? !a.is(0) && !b.is(0) : !a.is(0) || !b.is(0)) ? 1 : 0);
            return unknown({a, b}, true);
        }
        if (op_ == "Equal" || op_ == "Less" || op_ == "Greater") return comparison(a, b);
        if (op_ == "Mod" && a.number() && b.number() && *a.number() >= 0 && *b.number() > 0)
            return amount(*a.number() % *b.number());
        return unknown({a, b}, false);
    }

    std::optional<amount> choice(const amount& condition, const amount& a, const amount& b) const {
        if (a == b || condition.is(1)) return a;
        if (condition.is(0)) return b;
        return unknown({condition, a, b}, is_length(a) && is_length(b));
    }

private:
    bool is_length(const amount& a) const { return symbols_.has_sign(a) && !a.is_negative(); }

    // Whether `a` is a multiple of the number of rows, which one row makes as large as `b`. There is a row.
    static bool is_at_least(const amount& a, const amount& b) {
        const bool is_of_rows = a.powers().size() == 1 && a.is_multiple_of_rows() && a.is_whole();
        return is_of_rows && a.factor() > 0 && b.number() && *b.number() <= a.factor();
    }

    // A number that is the same for any rows, and of which no more is known.
    std::optional<amount> unknown(const amounts& from, bool is_length) const {
        std::string key = op_ + (is_real(type_) ? " real" : "");
        for (const amount& each : from) {
            if (each.depends_on_rows()) return {};
            key += " " + to_string(each);
        }
        return symbols_.named(key, is_length);
    }

    std::optional<amount> quotient(const amount& a, const amount& b) const {
        const amount made = a / b;
        if (is_real(type_) ? is_exact(type_, made) : made.is_whole()) return made;
        if (!is_real(type_) && a.number() && b.number()) return amount(*a.number() / *b.number());
        return unknown({a, b}, is_length(a) && is_length(b));
    }

    std::optional<amount> comparison(const amount& a, const amount& b) const {
        const auto x = a.number(), y = b.number();
        if (x && y) return amount((op_ == "Equal" ? *x == *y : op_ == "Less" ? *x < *y : *x > *y) ? 1 : 0);
        if (op_ == "Equal") {
            if (a == b) return amount(1);
            // Lengths are not negative, and there is a row.
            const auto is_never = [&](const amount& length, std::optional<std::int64_t> other) {
                const bool is_of_rows = length.powers().size() == 1 && length.is_multiple_of_rows();
                return other && is_length(length) && (*other < 0 || (*other == 0 && is_of_rows && !length.is(0)));
            };
            if (is_never(a, y) || is_never(b, x)) return amount(0);
        }
        return unknown({a, b}, true);
    }

    const std::string& op_;
    const io::dtype type_;
    symbol_table& symbols_;
};

// Operands have one shape, or one element.
struct operands {
    std::vector<amounts> all;
    std::vector<std::size_t> shape;
    std::size_t count = 1;
    const amount& at(std::size_t operand, std::size_t i) const {
        return all[operand].size() == 1 ? all[operand][0] : all[operand][i];
    }
};

std::optional<operands> operands_of(std::span<const followed* const> inputs) {
    operands made;
    bool has_several = false;
    for (const followed* const each : inputs) {
        if (each == nullptr || !each->shape) return {};
        const auto elements = elements_of(*each);
        if (!elements) return {};
        std::vector<std::size_t> shape;
        for (const amount& its : *each->shape) {
            if (!its.number()) return {};
            shape.push_back(static_cast<std::size_t>(*its.number()));
        }
        if (elements->size() != 1) {
            if (has_several && shape != made.shape) return {};
            if (shape.size() < made.shape.size()) return {};
            has_several = true;
            made.shape = shape;
            made.count = elements->size();
        } else if (shape.size() > made.shape.size()) {
            if (has_several) return {};
            made.shape = shape;
        }
        made.all.push_back(*elements);
    }
    return made;
}

// Of ONNX's numbers for types.
std::optional<io::dtype> type_of_number(std::int64_t number) {
    switch (number) {
        case 1: return io::dtype::f32;
        case 6: return io::dtype::i32;
        case 7: return io::dtype::i64;
        case 9: return io::dtype::boolean;
        case 11: return io::dtype::f64;
        default: return {};
    }
}

std::optional<followed> cast_numbers(const node& which, const operands& from, io::dtype type, symbol_table& symbols) {
    const auto* const number = which.find<std::int64_t>("to");
    const auto to = number != nullptr ? type_of_number(*number) : std::nullopt;
    if (!to) return {};
    amounts made = from.all[0];
    for (amount& each : made) {
        if (*to == io::dtype::boolean) {
            if (!each.number()) return {};
            each = amount(each.is(0) ? 0 : 1);
        } else if (!is_real(*to) && is_real(type) && !each.is_whole()) {
            if (each.depends_on_rows()) return {};
            each = symbols.named("whole part of " + to_string(each), symbols.has_sign(each) && !each.is_negative());
        } else if (!is_exact(*to, each)) {
            if (each.depends_on_rows()) return {};
            each = symbols.named("rounded " + to_string(each), symbols.has_sign(each) && !each.is_negative());
        }
    }
    return value_of(*to, from.shape, std::move(made));
}

std::optional<followed> reduced_numbers(const node& which, const operands& from,
                                        std::span<const followed* const> inputs) {
    if (which.attributes.contains("noop_with_empty_axes")) return {};
    if (from.shape.size() != 1 || (inputs.size() > 1 && inputs[1] != nullptr && !inputs[1]->known)) return {};
    amount made(which.op == "ReduceProd" ? 1 : 0);
    for (const amount& each : from.all[0]) {
        if (which.op == "ReduceProd") {
            made = made * each;
        } else if (const auto sum = amount::sum(made, each)) {
            made = *sum;
        } else {
            return {};
        }
    }
    if (!is_exact(inputs[0]->type, made)) return {};
    const auto* const kept = which.find<std::int64_t>("keepdims");
    const bool is_kept = kept == nullptr || *kept != 0;
    return value_of(inputs[0]->type, is_kept ? std::vector<std::size_t>{1} : std::vector<std::size_t>(), {made});
}

std::optional<followed> computed_numbers(const node& which, std::span<const followed* const> inputs,
                                         symbol_table& symbols) {
    const std::string& op = which.op;
    const bool is_reduction = op == "ReduceProd" || op == "ReduceSum";
    const auto from = operands_of(is_reduction ? inputs.first(1) : inputs);
    if (!from || from->all.empty()) return {};
    if (is_reduction) return reduced_numbers(which, *from, inputs);
    const io::dtype type = inputs[0]->type;
    if (op == "Cast") return cast_numbers(which, *from, type, symbols);
    static constexpr std::array<std::string_view, 6> of_one{"Neg", "Not", "Abs", "Floor", "Ceil", "Round"};
    static constexpr std::array<std::string_view, 12> of_two{"Add", "Sub", "Mul", "Div",  "Mod",     "Max",
                                                             "Min", "And", "Or",  "Less", "Greater", "Equal"};
    const bool is_one = std::ranges::find(of_one, op) != of_one.end() && from->all.size() == 1;
    const bool is_two = std::ranges::find(of_two, op) != of_two.end() && from->all.size() == 2;
    const bool is_choice = op == "Where" && from->all.size() == 3;
    if (!is_one && !is_two && !is_choice) return {};
    const arithmetic with(which, type, symbols);
    amounts made;
    for (std::size_t i = 0; i < from->count; ++i) {
        const auto next = is_one   ? with.one(from->at(0, i))
                          : is_two ? with.two(from->at(0, i), from->at(1, i))
                                   : with.choice(from->at(0, i), from->at(1, i), from->at(2, i));
        if (!next) return {};
        made.push_back(*next);
    }
    const bool is_test = op == "Less" || op == "Greater" || op == "Equal" || op == "Not" || op == "And" || op == "Or";
    return value_of(is_test ? io::dtype::boolean : is_choice ? inputs[1]->type : type, from->shape, std::move(made));
}

}  // namespace

std::optional<amounts> elements_of(const followed& value) {
    if (value.elements) return value.elements;
    const any_tensor& known = value.known;
    if (!known || known.elements() > most_numbers || (!known.is_on_host() && known.elements() != 0)) return {};
    amounts made;
    operators::with_type(known.type(), [&]<typename T>() {
        for (std::size_t i = 0; i < known.elements(); ++i) {
            T one;
            std::memcpy(&one, known.bytes().data() + i * sizeof(T), sizeof(T));
            if constexpr (std::is_integral_v<T>) {
                made.emplace_back(static_cast<std::int64_t>(one));
            } else if (const auto its = amount_of(static_cast<double>(static_cast<operators::computed<T>>(one)))) {
                made.push_back(*its);
            }
        }
    });
    if (made.size() != known.elements()) return {};
    return made;
}

std::optional<followed> compute_numbers(const node_to_try& which, std::span<const followed* const> inputs,
                                        symbol_table& symbols) {
    const node& its = which.which;
    if (!its.domain.empty() || its.outputs.size() != 1 || inputs.empty() || inputs[0] == nullptr) return {};
    if (its.op == "Shape" && inputs[0]->shape) return shape_as_numbers(its, *inputs[0]->shape);
    if (its.op == "Size" && inputs[0]->shape) return value_of(io::dtype::i64, {}, {product(*inputs[0]->shape)});
    const bool has_amounts =
        std::ranges::any_of(inputs, [](const followed* each) { return each != nullptr && each->elements.has_value(); });
    if (!has_amounts) return {};
    try {
        if (const auto found = moving.find(its.op); found != moving.end()) return moved(which, inputs, found->second);
    } catch (const error&) {
        return {};  // the operator refuses the node
    }
    return computed_numbers(its, inputs, symbols);
}

}  // namespace sluice::nn::rows
