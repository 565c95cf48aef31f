// SPDX-License-Identifier: Apache-2.0
// Einsum. More than two tensors are combined one after another. Two are a matrix product where possible, else each
// element of the result is a sum of its own.
#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <vector>

#include "nn/operators/launch_each.hpp"
#include "nn/operators/products.hpp"

namespace sluice::nn::operators {
namespace {

// A dimension's letter; those of an ellipsis are below 'A': the last is ellipsis_end - 1.
using einsum_letters = std::vector<int>;
constexpr int ellipsis_end = 'A';

struct einsum_equation {
    std::vector<einsum_letters> inputs;
    einsum_letters output;
};

struct einsum_term {
    any_tensor value;
    einsum_letters letters;
};

using letter_lengths = std::map<int, std::size_t>;

bool einsum_contains(const einsum_letters& in, int letter) { return std::ranges::find(in, letter) != in.end(); }

// --- the equation ------------------------------------------------------------------------------------------------

// One term: letters, of which an ellipsis is `dots` at most once.
constexpr int dots = 0;

einsum_letters read_term(const node_call& in, std::string_view text) {
    einsum_letters made;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const char letter = text[i];
        if ((letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z')) {
            made.push_back(letter);
        } else if (text.substr(i, 3) == "..." && !einsum_contains(made, dots)) {
            made.push_back(dots);
            i += 2;
        } else {
            in.refuse("has an equation with '" + std::string(text) + "', which Sluice does not understand");
        }
    }
    return made;
}

// The ellipsis of a term becomes that many letters.
void replace_dots(einsum_letters& term, std::size_t count) {
    const auto at = std::ranges::find(term, dots);
    if (at == term.end()) return;
    const auto next = term.erase(at);
    einsum_letters made;
    for (std::size_t i = 0; i < count; ++i) made.push_back(ellipsis_end - static_cast<int>(count - i));
    term.insert(next, made.begin(), made.end());
}

einsum_equation read_equation(const node_call& in) {
    std::string text = in.text("equation", "");
    std::erase(text, ' ');
    const std::size_t arrow = text.find("->");
    einsum_equation made;
    const std::string_view left = std::string_view(text).substr(0, arrow);
    for (std::size_t begin = 0; begin <= left.size();) {
        const std::size_t end = std::min(left.find(',', begin), left.size());
        made.inputs.push_back(read_term(in, left.substr(begin, end - begin)));
        begin = end + 1;
    }
    if (made.inputs.size() != in.input_count()) {
        in.refuse("has an equation of " + std::to_string(made.inputs.size()) + " terms, and " +
                  std::to_string(in.input_count()) + " inputs");
    }
    std::size_t most_dots = 0;
    for (std::size_t i = 0; i < made.inputs.size(); ++i) {
        einsum_letters& term = made.inputs[i];
        const bool has_dots = einsum_contains(term, dots);
        const std::size_t named = term.size() - (has_dots ? 1 : 0), rank = in.input(i).shape().size();
        if (has_dots ? rank < named : rank != named) {
            in.refuse_shapes("has an equation with " + std::to_string(named) + " letters for " +
                             to_string(in.input(i)));
        }
        if (rank - named >= 32) in.refuse_unsupported("has an ellipsis of 32 dimensions or more");
        most_dots = std::max(most_dots, rank - named);
        replace_dots(term, rank - named);
    }
    std::map<int, std::size_t> uses;
    for (const einsum_letters& term : made.inputs)
        for (const int letter : term) ++uses[letter];
    if (arrow != std::string::npos) {
        made.output = read_term(in, std::string_view(text).substr(arrow + 2));
        replace_dots(made.output, most_dots);
        for (const int letter : made.output) {
            if (std::ranges::count(made.output, letter) != 1 || !uses.contains(letter))
                in.refuse("has an equation whose output has a letter twice, or one that no input has");
        }
        for (const auto& [letter, count] : uses) {
            if (letter < ellipsis_end && !einsum_contains(made.output, letter))
                in.refuse("has an equation whose inputs have an ellipsis, and whose output has none");
        }
    } else {
        for (const auto& [letter, count] : uses)
            if (letter < ellipsis_end || count == 1) made.output.push_back(letter);
    }
    return made;
}

letter_lengths lengths_of_letters(const node_call& in, const einsum_equation& equation) {
    letter_lengths made;
    for (std::size_t i = 0; i < equation.inputs.size(); ++i) {
        for (std::size_t d = 0; d < equation.inputs[i].size(); ++d) {
            const std::size_t length = in.input(i).shape()[d];
            const auto [at, is_new] = made.emplace(equation.inputs[i][d], length);
            if (is_new || at->second == length || length == 1) continue;
            if (at->second != 1) in.refuse_shapes("has an equation with one letter for two different lengths");
            at->second = length;
        }
    }
    return made;
}

// --- the kernel --------------------------------------------------------------------------------------------------

template <typename T>
struct einsum_sum {
    using type = computed<T>;
};
template <>
struct einsum_sum<float> {
    using type = double;
};
template <>
struct einsum_sum<std::uint8_t> {
    using type = std::uint32_t;
};
template <>
struct einsum_sum<std::uint16_t> {
    using type = std::uint32_t;
};

struct einsum_dimensions {
    static constexpr std::size_t max_rank = 12;
    std::size_t rank = 0;
    std::size_t length[max_rank] = {}, a[max_rank] = {}, b[max_rank] = {};
};

template <typename T>
struct einsum_element {
    einsum_dimensions outside, inside;  // of the output; of the sum
    std::size_t terms;                  // of the sum
    const T* a;
    const T* b;  // null: there is no second factor
    T* y;

    SLUICE_KERNEL void operator()(std::size_t index) const {
        using number = typename einsum_sum<T>::type;
        std::size_t at_a = 0, at_b = 0, rest = index;
        for (std::size_t d = outside.rank; d-- > 0;) {
            const std::size_t i = rest % outside.length[d];
            rest /= outside.length[d];
            at_a += i * outside.a[d];
            at_b += i * outside.b[d];
        }
        std::size_t digit[einsum_dimensions::max_rank] = {};
        number sum = 0;
        for (std::size_t term = 0; term < terms; ++term) {
            const auto factor = static_cast<number>(a[at_a]);
            sum += b != nullptr ? factor * static_cast<number>(b[at_b]) : factor;
            for (std::size_t d = inside.rank; d-- > 0;) {
                at_a += inside.a[d];
                at_b += inside.b[d];
                if (++digit[d] != inside.length[d]) break;
                digit[d] = 0;
                at_a -= inside.length[d] * inside.a[d];
                at_b -= inside.length[d] * inside.b[d];
            }
        }
        if constexpr (std::is_same_v<T, half> || std::is_same_v<T, bfloat16>) {
            y[index] = T(static_cast<float>(sum));
        } else {
            y[index] = static_cast<T>(sum);
        }
    }
};

// --- two terms ---------------------------------------------------------------------------------------------------

// A letter with the strides of it in two tensors.
struct einsum_axis {
    std::size_t length, first, second;
};

// Neighbours that are one dimension in both tensors become one.
std::vector<einsum_axis> merged_axes(const std::vector<einsum_axis>& axes) {
    std::vector<einsum_axis> made;
    for (const einsum_axis& next : axes) {
        if (next.length == 1) continue;
        if (!made.empty() && made.back().first == next.first * next.length &&
            made.back().second == next.second * next.length) {
            made.back() = {made.back().length * next.length, next.first, next.second};
        } else {
            made.push_back(next);
        }
    }
    return made;
}

class einsum_pair {
public:
    // `b` is null for one term alone.
    einsum_pair(const node_call& in, const letter_lengths& lengths, const einsum_term& a, const einsum_term* b,
                const einsum_term& y)
        : in_(in), lengths_(lengths), a_(a), b_(b), y_(y) {}

    void run() const {
        if (y_.value.elements() == 0 || in_.where() == place::nowhere) return;
        if (b_ == nullptr || !can_multiply(y_.value.type()) || !run_as_product()) run_each();
    }

private:
    // A letter that a term has twice moves along the diagonal.
    std::size_t stride(const einsum_term& of, int letter) const {
        const operators::lengths strides = strides_of(of.value.shape());
        std::size_t sum = 0;
        for (std::size_t d = 0; d < strides.size(); ++d)
            if (of.letters[d] == letter && of.value.shape()[d] != 1) sum += strides[d];
        return sum;
    }
    bool has(const einsum_term* term, int letter) const {
        return term != nullptr && einsum_contains(term->letters, letter);
    }
    einsum_letters summed() const {
        einsum_letters made;
        for (const auto& [letter, length] : lengths_)
            if (!has(&y_, letter) && (has(&a_, letter) || has(b_, letter))) made.push_back(letter);
        return made;
    }

    bool run_as_product() const {
        std::vector<einsum_axis> rows, columns, inner;
        product_layout at;
        for (const int letter : y_.letters) {
            const std::size_t length = lengths_.at(letter), to = stride(y_, letter);
            if (has(&a_, letter) && has(b_, letter)) {
                add_batch(in_, at, length, stride(a_, letter), stride(*b_, letter), to);
            } else if (has(&a_, letter)) {
                rows.push_back({length, stride(a_, letter), to});
            } else {
                columns.push_back({length, stride(*b_, letter), to});
            }
        }
        for (const int letter : summed()) {
            if (!has(&a_, letter) || !has(b_, letter)) return false;
            inner.push_back({lengths_.at(letter), stride(a_, letter), stride(*b_, letter)});
        }
        std::ranges::sort(inner, std::ranges::greater(), &einsum_axis::first);
        rows = merged_axes(rows);
        columns = merged_axes(columns);
        inner = merged_axes(inner);
        if (inner.size() > 1) return false;
        if (!inner.empty()) {
            at.inner = inner[0].length;
            at.a_inner = inner[0].first;
            at.b_inner = inner[0].second;
        }
        if (!rows.empty()) {
            at.rows = rows.back().length;
            at.a_row = rows.back().first;
            at.y_row = rows.back().second;
            rows.pop_back();
        }
        if (!columns.empty()) {
            at.columns = columns.back().length;
            at.b_column = columns.back().first;
            at.y_column = columns.back().second;
            columns.pop_back();
        }
        for (const einsum_axis& each : rows) add_batch(in_, at, each.length, each.first, 0, each.second);
        for (const einsum_axis& each : columns) add_batch(in_, at, each.length, 0, each.first, each.second);
        multiply(in_, a_.value, b_->value, nullptr, y_.value, at);
        return true;
    }

    einsum_dimensions dimensions(const einsum_letters& letters) const {
        einsum_dimensions made;
        for (const int letter : letters) {
            if (made.rank == einsum_dimensions::max_rank)
                in_.refuse_unsupported("has an equation with more than twelve letters in the output or in the sum");
            made.length[made.rank] = lengths_.at(letter);
            made.a[made.rank] = stride(a_, letter);
            made.b[made.rank] = b_ != nullptr ? stride(*b_, letter) : 0;
            ++made.rank;
        }
        return made;
    }

    template <typename T>
    void run_each_as() const {
        const einsum_dimensions outside = dimensions(y_.letters), inside = dimensions(summed());
        std::size_t terms = 1;
        for (std::size_t d = 0; d < inside.rank; ++d)
            if (__builtin_mul_overflow(terms, inside.length[d], &terms)) in_.refuse_shapes("has too long a sum");
        const any_tensor& second = b_ != nullptr ? b_->value : a_.value;
        each(in_, y_.value.elements(),
             einsum_element<T>{outside, inside, terms, in_.read<T>(a_.value),
                               b_ != nullptr ? in_.read<T>(second) : nullptr, in_.write<T>(y_.value)},
             {&a_.value, &second}, {&y_.value});
    }
    // Integers are unsigned: they wrap.
    void run_each() const {
        const io::dtype type = y_.value.type();
        if (type == io::dtype::boolean) in_.refuse_type(y_.value);
        if (is_float(type)) return with_float(in_, y_.value, [&]<typename T>() { run_each_as<T>(); });
        with_word(type, [&]<typename T>() { run_each_as<T>(); });
    }

    const node_call& in_;
    const letter_lengths& lengths_;
    const einsum_term& a_;
    const einsum_term* const b_;
    const einsum_term& y_;
};

// The letters that a result of two terms has: those that are in the output or in later terms.
einsum_letters letters_of_result(const einsum_term& a, const einsum_term& b, const einsum_equation& equation,
                                 std::size_t next) {
    einsum_letters made;
    for (const einsum_term* const term : {&a, &b}) {
        for (const int letter : term->letters) {
            bool is_used = einsum_contains(equation.output, letter);
            for (std::size_t i = next; i < equation.inputs.size(); ++i)
                is_used = is_used || einsum_contains(equation.inputs[i], letter);
            if (is_used && !einsum_contains(made, letter)) made.push_back(letter);
        }
    }
    return made;
}

lengths einsum_shape(const einsum_letters& letters, const letter_lengths& of) {
    lengths made;
    for (const int letter : letters) made.push_back(of.at(letter));
    return made;
}

}  // namespace

void einsum(node_call& in) {
    const io::dtype type = in.input(0).type();
    for (std::size_t i = 0; i < in.input_count(); ++i)
        if (!in.has_input(i) || in.input(i).type() != type) in.refuse("takes tensors of one type");
    if (type == io::dtype::boolean) in.refuse_type(in.input(0));
    const einsum_equation equation = read_equation(in);
    const letter_lengths lengths_by_letter = lengths_of_letters(in, equation);
    einsum_term so_far{in.input(0), equation.inputs[0]};
    const auto output = [&] {
        return einsum_term{in.make_output(0, type, einsum_shape(equation.output, lengths_by_letter)), equation.output};
    };
    if (in.input_count() == 1) {
        const einsum_term made = output();
        return einsum_pair(in, lengths_by_letter, so_far, nullptr, made).run();
    }
    for (std::size_t i = 1; i < in.input_count(); ++i) {
        const einsum_term next{in.input(i), equation.inputs[i]};
        einsum_term made;
        if (i + 1 == in.input_count()) {
            made = output();
        } else {
            made.letters = letters_of_result(so_far, next, equation, i + 1);
            made.value = in.make(type, einsum_shape(made.letters, lengths_by_letter));
        }
        einsum_pair(in, lengths_by_letter, so_far, &next, made).run();
        so_far = made;
    }
}

}  // namespace sluice::nn::operators
