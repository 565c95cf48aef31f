// SPDX-License-Identifier: Apache-2.0
#include "stress/operations.hpp"

#include <optional>
#include <string>
#include <utility>

#include "sluice/graph/control_flow.hpp"
#include "sluice/kernels/arithmetic.hpp"
#include "sluice/kernels/gemm.hpp"
#include "sluice/kernels/transpose.hpp"
#include "sluice/op/named.hpp"
#include "sluice/op/share.hpp"
#include "sluice/op/unzip.hpp"
#include "sluice/op/value.hpp"
#include "sluice/op/with_context.hpp"
#include "sluice/op/zip.hpp"
#include "sluice/runtime/copy.hpp"
#include "sluice/runtime/copy_region.hpp"
#include "sluice/runtime/host_call.hpp"
#include "sluice/runtime/launch.hpp"
#include "sluice/runtime/transfer.hpp"
#include "stress/kernels.hpp"

namespace sluice::stress {

namespace {

template <typename X, typename Y>
tensor<float> mixed(execution_context& context, const X& x, const Y& y, float k, std::size_t shift) {
    tensor<float> out(context.stream(), x.shape());
    launch_on(context.stream(), mix_kernel{k, shift}, each_of(out), x, y, out);
    return out;
}

some_operation change(tensor<float> x, float k) {
    auto range = each_of(x);
    return launch(change_kernel{k}, range, std::move(x));
}

template <typename Word>
tensor<float> by_pointer(execution_context& context, const tensor<float>& x, pointer_form form) {
    tensor<float> out(context.stream(), x.shape());
    const std::uint64_t word = word_of(form, x.device_data(), out.device_data(), x.size());
    launch_on(context.stream(), pointer_kernel<Word>{{form, word}}, each_of(out), x, out);
    return out;
}

tensor<float> multiplied(execution_context& context, const tensor<float>& x, const tensor<float>& y) {
    tensor<float> out(context.stream(), x.shape());
    gemm(context.stream(), x, y, nullptr, out, {});
    launch_on(context.stream(), wrap_kernel{}, each_of(out), out);
    return out;
}

some_operation on_condition(tensor<float> x, float limit, float k) {
    return with_context([limit, k, x = std::move(x)](execution_context& context) mutable {
        tensor<int> flag(context.stream(), {1});
        launch_on(context.stream(), is_above_kernel{limit}, each_of(flag), x, flag);
        return if_(std::move(flag), [k](tensor<float> now) { return change(std::move(now), k); }, std::move(x));
    });
}

some_operation counted(tensor<float> x, int rounds, float k) {
    return upload(std::vector<int>{rounds}).and_then([k, x = std::move(x)](tensor<int> left) mutable {
        const auto is_left = [](shared_tensor<int> now, const shared_tensor<float>&) {
            return uninitialized<int>({1}).and_then([now](tensor<int> to) {
                auto range = each_of(to);
                return launch(is_positive_kernel{}, range, now, std::move(to));
            });
        };
        const auto body = [k](tensor<int> now, tensor<float> y) {
            auto range = each_of(now);
            return zip(launch(count_down_kernel{}, range, std::move(now)), change(std::move(y), k));
        };
        return repeat_while(is_left, body, std::move(left), std::move(x)).transform([](tensor<int>, tensor<float> y) {
            return tensor<float>(std::move(y));
        });
    });
}

some_operation until_small(tensor<float> x, float limit) {
    const auto body = [limit](loop_flag again, tensor<float> now) {
        auto range = each_of(now);
        return launch(halve_kernel{limit}, range, std::move(now), again);
    };
    return do_while(body, std::move(x));
}

// A program's operations, built for one submission.
struct builder {
    const program what;
    const surroundings with;
    std::optional<tensor<float>> owned;
    std::optional<shared_tensor<float>> read, host;
    float s;
    int k;

    some_operation of(int index) {
        const node each = what.nodes[static_cast<std::size_t>(index)];
        if (each.left < 0) return leaf(each);
        some_operation x = of(each.left);
        return each.right < 0 ? of_one(each, std::move(x)) : of_two(each, std::move(x), of(each.right));
    }

    some_operation leaf(const node& each) {
        const shape all{what.width, what.width};
        switch (each.what) {
            case step::owned_input: return value(std::move(*owned));
            case step::read_input: return copy(*read);
            case step::host_input: return copy(*host);
            case step::captured: return copy(with.captured[each.number % with.captured.size()]);
            case step::uploaded: return upload(values(what.width * what.width, uploaded_value(each.number, k)), all);
            default: return zeros<float>(all);
        }
    }

    some_operation of_one(const node& each, some_operation x) {
        const float by = factor(each.number, s);
        switch (each.what) {
            case step::named: return named("node " + std::to_string(each.number), std::move(x));
            case step::twice: return twice(std::move(x), by, each.number);
            case step::chain:
                for (unsigned round = 0; round < each.number; ++round) {
                    x = std::move(x).and_then([by](tensor<float> now) { return change(std::move(now), by); });
                }
                return x;
            case step::in_context:
                return with_context([by, x = std::move(x)](execution_context& context) mutable {
                    tensor<float> now = std::move(x).submit(context);
                    launch_on(context.stream(), change_kernel{by}, each_of(now), now);
                    return now;
                });
            default:
                return std::move(x).and_then([each, by, s = s, inner = with.inner, y = *read](tensor<float> now) {
                    return continued(each, by, s, inner, y, std::move(now));
                });
        }
    }

    static some_operation continued(const node& each, float by, float s,
                                    const std::shared_ptr<const inner_graph>& inner, const shared_tensor<float>& y,
                                    tensor<float> x) {
        switch (each.what) {
            case step::transposed: return transpose(std::move(x));
            case step::inner: return (*inner)(std::move(x), y, s);
            case step::on_condition: return on_condition(std::move(x), small_limit(each.number), by);
            case step::counted: return counted(std::move(x), static_cast<int>(each.number % 4), by);
            case step::until_small: return until_small(std::move(x), small_limit(each.number));
            case step::by_pointer:
            case step::dropped:
                return with_context([each, x = std::move(x)](execution_context& context) mutable {
                    if (each.what == step::dropped) {
                        const shared_tensor<float> both(std::move(x));
                        static_cast<void>(download(both).submit(context));
                        return copy(both).submit(context);
                    }
                    const auto form = static_cast<pointer_form>(each.number % pointer_forms);
                    return each.number < 32 ? by_pointer<packed_word>(context, x, form)
                                            : by_pointer<aligned_word>(context, x, form);
                });
            default: return change(std::move(x), by);
        }
    }

    static some_operation twice(some_operation x, float by, std::size_t shift) {
        auto once = share(std::move(x));
        auto again = once;
        return zip(std::move(once), std::move(again))
            .and_then([by, shift](shared_tensor<float> left, shared_tensor<float> right) {
                return with_context(
                    [=](execution_context& context) { return mixed(context, *left, *right, by, shift); });
            });
    }

    some_operation of_two(const node& each, some_operation x, some_operation y) {
        const float by = factor(each.number, s);
        if (each.what == step::swapped) {
            auto [left, right] = unzip(zip(std::move(x), std::move(y)));
            x = std::move(right);
            y = std::move(left);
        }
        return zip(std::move(x), std::move(y)).and_then([each, by](tensor<float> left, tensor<float> right) {
            return with_context([each, by, left = std::move(left),
                                 right = std::move(right)](execution_context& context) mutable -> tensor<float> {
                stream on = context.stream();
                switch (each.what) {
                    case step::added: combine(on, arithmetic::add, left, right); break;
                    case step::subtracted: combine(on, arithmetic::subtract, left, right); break;
                    case step::product: return multiplied(context, left, right);
                    case step::pasted: {
                        const rectangle where = pasted_rectangle(each.number, left.columns());
                        const shape size{where.rows, where.columns};
                        copy_to(on, left, {{where.to_row, where.to_column}, size}, right,
                                {{where.from_row, where.from_column}, size});
                        return std::move(left);
                    }
                    default: return mixed(context, left, right, by, each.number);
                }
                launch_on(on, wrap_kernel{}, each_of(left), left);
                return std::move(left);
            });
        });
    }

    any_operation<outputs> all() {
        const shared_tensor<float> chosen = with.selection[what.selects ? selected(k, with.selection.size()) : 0];
        some_operation result = of(what.result);
        any_operation<landed> second = of(what.downloaded).and_then(download);
        if (what.has_host_call) {
            second = std::move(second).and_then([](landed x) {
                const auto one_more = [](values now) {
                    for (float& each : now) each += 1;
                    return now;
                };
                return host_call(one_more, std::move(x));
            });
        }
        return zip(std::move(result), std::move(second), download(chosen));
    }
};

}  // namespace

inner_function make_inner() {
    return [](tensor<float> x, shared_tensor<float> y, float s) -> some_operation {
        return with_context([=, x = std::move(x)](execution_context& context) mutable {
            for (std::size_t round = 0; round < inner_rounds; ++round) x = mixed(context, x, *y, s, round);
            return std::move(x);
        });
    };
}

inner_graph compile_inner(device& on, std::size_t width, std::size_t replicas) {
    const shape all{width, width};
    return compile(on, graph_options{.replicas = replicas}, make_inner(), device_input<float>(all),
                   shared_input<float>(all), argument<float>(0));
}

function make_function(const program& what, const surroundings& with) {
    return [=](tensor<float> owned, shared_tensor<float> read, tensor<float> host, float s,
               int k) -> any_operation<outputs> {
        builder how{what, with, std::move(owned), std::move(read), shared_tensor<float>(std::move(host)), s, k};
        return how.all();
    };
}

compiled compile_program(device& on, const program& what, const surroundings& with, std::size_t replicas) {
    const shape all{what.width, what.width};
    return compile(on, graph_options{.replicas = replicas}, make_function(what, with), device_input<float>(all),
                   shared_input<float>(all), host_input<float>(all), argument<float>(0), argument<int>(0));
}

}  // namespace sluice::stress
