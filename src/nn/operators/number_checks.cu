// SPDX-License-Identifier: Apache-2.0
#include "nn/operators/number_checks.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>

#include "nn/operators/launch_each.hpp"
#include "nn/operators/numbers.hpp"
#include "sluice/base/error.hpp"
#include "sluice/base/file_error.hpp"
#include "sluice/runtime/device.hpp"

namespace sluice::nn::operators {
namespace {

struct checked_numbers {
    const void* at;
    in_word<io::dtype> type;
    std::size_t columns;
    number_range allowed[number_rule::max_columns];
    number_range also;  // empty where nothing else is possible
    const std::int64_t* known;
    std::size_t known_count;

    template <typename Number>
    SLUICE_KERNEL static bool is_between(Number number, const number_range& range) {
        return number >= static_cast<Number>(range.least) && number <= static_cast<Number>(range.most);
    }
    template <typename Number>
    SLUICE_KERNEL bool is_fine(std::size_t i, Number number) const {
        if (known != nullptr) {
            // OneHotEncoder cuts fractions off.
            if constexpr (std::is_floating_point_v<Number>) number = std::trunc(number);
            for (std::size_t k = 0; k < known_count; ++k)
                if (number == static_cast<Number>(known[k])) return true;
            return false;
        }
        const number_range& range = columns == 1 ? allowed[0] : allowed[i % columns];
        if (range.least == any_number_at_all.least && range.most == any_number_at_all.most) return true;
        if constexpr (std::is_floating_point_v<Number>) {
            if (is_between(number, range) && static_cast<Number>(static_cast<std::int64_t>(number)) != number)
                return false;  // a fraction
        }
        return is_between(number, range) || is_between(number, also);
    }
    SLUICE_KERNEL bool is_real() const {
        return type == io::dtype::f32 || type == io::dtype::f64 || type == io::dtype::f16 || type == io::dtype::bf16;
    }
    // Unsigned numbers of 64 bits that are too large for others become the largest one.
    SLUICE_KERNEL std::int64_t whole(std::size_t i) const {
        if (type != io::dtype::u64) return load_number<std::int64_t>(at, type, i);
        const std::uint64_t number = static_cast<const std::uint64_t*>(at)[i];
        return number > static_cast<std::uint64_t>(greatest_number<std::int64_t>) ? greatest_number<std::int64_t>
                                                                                  : static_cast<std::int64_t>(number);
    }
    SLUICE_KERNEL double real(std::size_t i) const { return load_number<double>(at, type, i); }
    SLUICE_KERNEL bool is_fine(std::size_t i) const { return is_real() ? is_fine(i, real(i)) : is_fine(i, whole(i)); }
};

// Whether all are surely fine: for integers of 32 and 64 bits in ranges. A sum of bits in place of a branch for each:
// its sign says whether a number is below the range or above it, also where a difference overflows.
template <std::size_t Columns, typename Integer>
bool are_in_ranges(const Integer* numbers, std::size_t count, const number_range* allowed) {
    std::uint64_t wrong = 0;
    for (std::size_t i = 0; i < count; ++i) {
        for (std::size_t k = 0; k < Columns; ++k) {
            const auto number = static_cast<std::uint64_t>(static_cast<std::int64_t>(numbers[i * Columns + k]));
            wrong |= (number - static_cast<std::uint64_t>(allowed[k].least)) |
                     (static_cast<std::uint64_t>(allowed[k].most) - number);
        }
    }
    return wrong >> 63 == 0;
}
template <typename Integer>
bool are_surely_fine(const checked_numbers& of, std::size_t count) {
    const auto* const numbers = static_cast<const Integer*>(of.at);
    number_range allowed[number_rule::max_columns];
    const std::size_t columns = of.columns;
    if (count % columns != 0) return false;
    for (std::size_t k = 0; k < columns; ++k) {
        allowed[k] = of.allowed[k];
        if (allowed[k].least > allowed[k].most) return false;
    }
    switch (columns) {
        case 1: return are_in_ranges<1>(numbers, count, allowed);
        case 2: return are_in_ranges<2>(numbers, count / 2, allowed);
        case 3: return are_in_ranges<3>(numbers, count / 3, allowed);
        case 4: return are_in_ranges<4>(numbers, count / 4, allowed);
        case 5: return are_in_ranges<5>(numbers, count / 5, allowed);
        default: return false;
    }
}
// The place of the first number that is refused, or count.
std::size_t first_refused(const checked_numbers& of, std::size_t count) {
    if (of.known == nullptr) {
        if (of.type == io::dtype::i64 && are_surely_fine<std::int64_t>(of, count)) return count;
        if (of.type == io::dtype::i32 && are_surely_fine<std::int32_t>(of, count)) return count;
    }
    for (std::size_t i = 0; i < count; ++i)
        if (!of.is_fine(i)) return i;
    return count;
}

// A number in 64 bits, and as text.
std::uint64_t bits_of(const checked_numbers& numbers, std::size_t i) {
    return numbers.is_real() ? std::bit_cast<std::uint64_t>(numbers.real(i))
                             : static_cast<std::uint64_t>(numbers.whole(i));
}
std::string text_of_number(std::uint64_t bits, bool is_real) {
    if (!is_real) return std::to_string(static_cast<std::int64_t>(bits));
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "%.9g", std::bit_cast<double>(bits));
    return text.data();
}

std::string text_of_possible(const number_range& range, const number_range& also, std::size_t known_count) {
    if (known_count != 0) return "the operator knows " + std::to_string(known_count) + " others";
    std::string text = range.most < range.least ? std::string("nothing")
                                                : std::to_string(range.least) + " to " + std::to_string(range.most);
    if (also.least <= also.most) text += " and " + std::to_string(also.least);
    return text + (range.most < range.least && also.least > also.most ? " is possible" : " are possible");
}

// What the messages of a check say, in a form that commands can copy.
struct check_words {
    static constexpr std::size_t longest_path = 256, longest_name = 128;

    const char* noun;
    std::size_t input;
    char path[longest_path], label[longest_name], name[longest_name];

    check_words(const node_call& in, std::size_t of_input, const char* noun_of_one)
        : noun(noun_of_one), input(of_input) {
        const std::string whole_path = in.environment().path->string();
        // Of a long path the end, which has the file's name.
        keep(path,
             std::string_view(whole_path).substr(whole_path.size() - std::min(whole_path.size(), longest_path - 1)));
        keep(label, in.label());
        keep(name, in.what().inputs[of_input]);
    }

    [[noreturn]] void refuse(std::size_t i, const std::string& number, const std::string& possible) const {
        throw file_error(path, file_error::no_offset, label, text(name, i, number, possible), errc::out_of_range);
    }
    std::string text(std::string_view of_name, std::size_t i, const std::string& number,
                     const std::string& possible) const {
        return text_of_wrong_value(
            input, of_name, "has the " + std::string(noun) + " " + number + " (number " + std::to_string(i) + ")",
            possible);
    }

private:
    template <std::size_t Size>
    static void keep(char (&to)[Size], std::string_view from) {
        std::memset(to, 0, Size);
        std::memcpy(to, from.data(), std::min(from.size(), Size - 1));
    }
};

[[noreturn]] void refuse(const checked_numbers& numbers, std::size_t i, const check_words& words) {
    words.refuse(i, text_of_number(bits_of(numbers, i), numbers.is_real()),
                 text_of_possible(numbers.allowed[i % numbers.columns], numbers.also, numbers.known_count));
}

// What all waiters get: on the thread of a CPU device.
struct checking_call {
    checked_numbers numbers;
    std::size_t count;
    check_words words;

    static void run(const void* erased) {
        const auto& self = *static_cast<const checking_call*>(erased);
        const std::size_t wrong = first_refused(self.numbers, self.count);
        if (wrong != self.count) refuse(self.numbers, wrong, self.words);
    }
};

// The place of the first number that is refused; all bits 1 where there is none.
struct first_wrong_number {
    checked_numbers numbers;
    unsigned long long* found;

    SLUICE_KERNEL void operator()(std::size_t i) const {
        if (numbers.is_fine(i)) return;
#if defined(__CUDA_ARCH__)
        atomicMin(found, static_cast<unsigned long long>(i));
#else
        const std::atomic_ref<unsigned long long> first(*found);
        for (unsigned long long now = first; i < now && !first.compare_exchange_weak(now, i);) {
        }
#endif
    }
};

// Its bits, when the place is known.
struct wrong_number {
    checked_numbers numbers;
    unsigned long long* found;

    SLUICE_KERNEL void operator()(std::size_t) const {
        if (found[0] == ~0ull) return;
        if (!numbers.is_real()) {
            found[1] = static_cast<unsigned long long>(numbers.whole(found[0]));
            return;
        }
        store_number<double>(found, io::dtype::f64, 1, numbers.real(found[0]));
    }
};

checked_numbers checked(const any_tensor& numbers, const number_rule& rule, const void* at, const std::int64_t* known) {
    checked_numbers made{.at = at,
                         .type = numbers.type(),
                         .columns = rule.columns,
                         .allowed = {},
                         .also = {0, -1},
                         .known = known,
                         .known_count = rule.known != nullptr ? rule.known->elements() : 0};
    std::ranges::copy(rule.allowed, made.allowed);
    if (rule.also) made.also = {*rule.also, *rule.also};
    return made;
}

void check_on_gpu(const node_call& in, std::size_t input, const number_rule& rule, const checked_numbers& there) {
    const any_tensor &numbers = in.input(input), &known = rule.known != nullptr ? *rule.known : numbers;
    const any_tensor found = in.make(io::dtype::u64, {2});
    const memory_access written{found.memory(), access_mode::write};
    in.context().stream().fill({in.name(), {&written, 1}}, {found.memory()->data(), 0xff, found.size_bytes()});
    auto* const to = in.write<unsigned long long>(found);
    each(in, numbers.elements(), first_wrong_number{there, to}, {&numbers, &known}, {&found});
    each(in, 1, wrong_number{there, to}, {&numbers}, {&found});
    in.environment().checks->push_back(
        {in.label(), found,
         [words = check_words(in, input, rule.noun), there, name = in.what().inputs[input]](std::uint64_t at,
                                                                                            std::uint64_t bits) {
             return words.text(name, at, text_of_number(bits, there.is_real()),
                               text_of_possible(there.allowed[at % there.columns], there.also, there.known_count));
         }});
}

}  // namespace

void require_numbers(const node_call& in, std::size_t input, const number_rule& rule, const any_tensor& y) {
    const any_tensor& numbers = in.input(input);
    if (numbers.elements() == 0 || in.where() == place::nowhere) return;
    if (numbers.is_on_host()) {
        const void* const known = rule.known != nullptr ? rule.known->bytes().data() : nullptr;
        const checked_numbers here =
            checked(numbers, rule, numbers.bytes().data(), static_cast<const std::int64_t*>(known));
        const std::size_t wrong = first_refused(here, numbers.elements());
        if (wrong != numbers.elements()) refuse(here, wrong, check_words(in, input, rule.noun));
        return;
    }
    const checked_numbers there = checked(numbers, rule, in.read<void>(numbers),
                                          rule.known != nullptr ? in.read<std::int64_t>(*rule.known) : nullptr);
    if (in.context().device().kind() == device_kind::cpu) {
        checking_call closure{there, numbers.elements(), check_words(in, input, rule.noun)};
        launch_command command;
        command.host_function = &checking_call::run;
        command.may_fail = true;
        sluice::detail::set_closure(command, closure);
        detail::submit(in, command, {&numbers, rule.known != nullptr ? rule.known : &numbers}, {&y});
        return;
    }
    if (in.environment().checks != nullptr) check_on_gpu(in, input, rule, there);
}

}  // namespace sluice::nn::operators
