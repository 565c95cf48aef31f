// SPDX-License-Identifier: Apache-2.0
#include "stress/program.hpp"

#include <utility>

#include "stress/numbers.hpp"

namespace sluice::stress {

namespace {

class maker {
public:
    maker(std::uint64_t seed, std::size_t width, const program_limits& limits) : numbers_(seed), limits_(limits) {
        made_.width = width;
    }

    program make() {
        made_.result = any(limits_.depth);
        made_.downloaded = any(limits_.depth / 2);
        made_.has_host_call = limits_.host && below(numbers_, 6) == 0;
        made_.selects = limits_.selection && below(numbers_, 4) == 0;
        if (made_.selects) made_.may_be_refused = true;
        return std::move(made_);
    }

private:
    int put(node each) {
        made_.nodes.push_back(each);
        return static_cast<int>(made_.nodes.size()) - 1;
    }

    int leaf() {
        constexpr step leaves[] = {step::owned_input, step::read_input, step::host_input,
                                   step::captured,    step::uploaded,   step::cleared};
        step which = leaves[below(numbers_, std::size(leaves))];
        if (which == step::owned_input && std::exchange(owned_is_taken_, true)) which = step::read_input;
        return put({.what = which, .number = number()});
    }

    int of_one(std::size_t depth) {
        constexpr step plain[] = {step::changed, step::transposed, step::named, step::in_context,
                                  step::dropped, step::twice,      step::chain};
        constexpr step control[] = {step::on_condition, step::counted, step::until_small};
        step which = plain[below(numbers_, std::size(plain))];
        if (limits_.inner && below(numbers_, 4) == 0) {
            which = step::inner;
        } else if (limits_.control && below(numbers_, 4) == 0) {
            which = control[below(numbers_, std::size(control))];
        } else if (limits_.pointers && below(numbers_, 12) == 0) {
            which = step::by_pointer;
            made_.may_be_refused = true;
        }
        return put({.what = which, .left = any(depth - 1), .number = number()});
    }

    int of_two(std::size_t depth) {
        constexpr step both[] = {step::mixed,   step::mixed,  step::added,  step::subtracted,
                                 step::product, step::pasted, step::swapped};
        const int left = any(depth - 1);
        const int right = any(below(numbers_, depth));
        return put({.what = both[below(numbers_, std::size(both))], .left = left, .right = right, .number = number()});
    }

    int any(std::size_t depth) {
        if (depth == 0) return leaf();
        return below(numbers_, 3) == 0 ? of_two(depth) : of_one(depth);
    }

    unsigned number() { return static_cast<unsigned>(below(numbers_, 64)); }

    generator numbers_;
    program_limits limits_;
    program made_;
    bool owned_is_taken_ = false;
};

// Computes the value of a node with loops on the host.
class evaluation {
public:
    evaluation(const program& what, const arguments& given, const std::vector<values>& captured)
        : what_(what), given_(given), captured_(captured), n_(what.width) {}

    values of(int index) const {
        const node& each = what_.nodes[static_cast<std::size_t>(index)];
        if (each.left < 0) return leaf(each);
        values x = of(each.left);
        return each.right < 0 ? of_one(each, std::move(x)) : of_two(each, x, of(each.right));
    }

private:
    values leaf(const node& each) const {
        switch (each.what) {
            case step::owned_input: return given_.owned;
            case step::read_input: return given_.read;
            case step::host_input: return given_.host;
            case step::captured: return captured_[each.number % captured_.size()];
            case step::uploaded: return values(n_ * n_, uploaded_value(each.number, given_.k));
            default: return values(n_ * n_, 0.F);
        }
    }

    values of_one(const node& each, values x) const {
        const float k = factor(each.number, given_.s);
        switch (each.what) {
            case step::changed:
            case step::in_context:
                for (float& e : x) e = changed_by(e, k);
                return x;
            case step::chain:
                for (unsigned round = 0; round < each.number; ++round) {
                    for (float& e : x) e = changed_by(e, k);
                }
                return x;
            case step::transposed: return transposed(x);
            case step::by_pointer:
                for (float& e : x) e = changed_by(e, 1);
                return x;
            case step::inner: return evaluate_inner(std::move(x), given_.read, n_, given_.s);
            case step::on_condition:
                if (x[0] > small_limit(each.number)) {
                    for (float& e : x) e = changed_by(e, k);
                }
                return x;
            case step::counted:
                for (unsigned round = 0; round < each.number % 4; ++round) {
                    for (float& e : x) e = changed_by(e, k);
                }
                return x;
            case step::until_small:
                do {
                    for (float& e : x) e = half_of(e);
                } while (x[0] > small_limit(each.number));
                return x;
            case step::twice: return mix(x, x, k, each.number);
            default: return x;  // named, dropped: nothing changes
        }
    }

    values of_two(const node& each, const values& x, const values& y) const {
        values out(x.size());
        switch (each.what) {
            case step::added:
                for (std::size_t i = 0; i < x.size(); ++i) out[i] = wrapped(x[i] + y[i]);
                return out;
            case step::subtracted:
                for (std::size_t i = 0; i < x.size(); ++i) out[i] = wrapped(x[i] - y[i]);
                return out;
            case step::product:
                for (std::size_t row = 0; row < n_; ++row) {
                    for (std::size_t column = 0; column < n_; ++column) {
                        float sum = 0;
                        for (std::size_t i = 0; i < n_; ++i) sum += x[row * n_ + i] * y[i * n_ + column];
                        out[row * n_ + column] = wrapped(sum);
                    }
                }
                return out;
            case step::pasted: {
                const rectangle where = pasted_rectangle(each.number, n_);
                out = x;
                for (std::size_t row = 0; row < where.rows; ++row) {
                    for (std::size_t column = 0; column < where.columns; ++column) {
                        out[(where.to_row + row) * n_ + where.to_column + column] =
                            y[(where.from_row + row) * n_ + where.from_column + column];
                    }
                }
                return out;
            }
            case step::swapped: return mix(y, x, factor(each.number, given_.s), each.number);
            default: return mix(x, y, factor(each.number, given_.s), each.number);
        }
    }

    values transposed(const values& x) const {
        values out(x.size());
        for (std::size_t i = 0; i < x.size(); ++i) out[i] = x[(i % n_) * n_ + i / n_];
        return out;
    }

    static values mix(const values& x, const values& y, float k, std::size_t shift) {
        values out(x.size());
        for (std::size_t i = 0; i < x.size(); ++i) out[i] = mix_of(x[i], y[(i + shift) % y.size()], k);
        return out;
    }

    const program& what_;
    const arguments& given_;
    const std::vector<values>& captured_;
    std::size_t n_;
};

}  // namespace

program random_program(std::uint64_t seed, std::size_t width, const program_limits& limits) {
    return maker(seed, width, limits).make();
}

values random_values(generator& numbers, std::size_t count) {
    values made(count);
    for (float& each : made) each = static_cast<float>(below(numbers, 251));
    return made;
}

arguments random_arguments(generator& numbers, std::size_t width) {
    const std::size_t count = width * width;
    arguments made;
    made.owned = random_values(numbers, count);
    made.read = random_values(numbers, count);
    made.host = random_values(numbers, count);
    made.s = static_cast<float>(below(numbers, 9));
    made.k = static_cast<int>(below(numbers, 3));
    return made;
}

// Four temporaries, so that two launches that use the same ones concurrently are detected.
values evaluate_inner(values x, const values& y, std::size_t width, float s) {
    for (std::size_t round = 0; round < inner_rounds; ++round) {
        values out(width * width);
        for (std::size_t i = 0; i < x.size(); ++i) out[i] = mix_of(x[i], y[(i + round) % y.size()], s);
        x = std::move(out);
    }
    return x;
}

results evaluate(const program& what, const arguments& given, const std::vector<values>& captured,
                 const std::vector<values>& selection) {
    const evaluation how(what, given, captured);
    results made;
    made.result = how.of(what.result);
    made.downloaded = how.of(what.downloaded);
    if (what.has_host_call) {
        for (float& each : made.downloaded) each += 1;
    }
    made.chosen = selection[what.selects ? selected(given.k, selection.size()) : 0];
    return made;
}

}  // namespace sluice::stress
