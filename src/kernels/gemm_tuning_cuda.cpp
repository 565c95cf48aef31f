// tune_gemm on a GPU: each way of each problem inside a graph, so that the host's time does not count, in turns.
#include <algorithm>
#include <cmath>
#include <limits>

#include "cuda/api/graph.hpp"
#include "cuda/api/runtime.hpp"
#include "kernels/gemm_choices.hpp"
#include "sluice/kernels/cast.hpp"
#include "sluice/kernels/random.hpp"
#include "sluice/runtime/scheduling_policy.hpp"
#include "sluice/runtime/sync.hpp"

namespace sluice::kernels {
namespace {

namespace api = cuda::api;

// A way other than cuBLASLt's first must be this much faster: measurements of one kernel differ by about as much.
constexpr double worth_it = 0.99;
constexpr int rounds = 5;
// How fast a large product is depends on what ran in the milliseconds before, presumably by way of power and clocks; so
// a way runs for some by itself before it is timed. (Seen on an H200, 8192 x 8192 x 8192: a kernel that was not the
// fastest in turns of 3 ms won by 5 % in turns of 12.) For small ones turns need only be long against the events'
// resolution.
constexpr double is_large_microseconds = 80;
constexpr double large_turn_microseconds = 12'000;
constexpr double small_turn_microseconds = 2'000;
constexpr double glance_microseconds = 400;
constexpr double hopeless = 1.3;  // times the fastest, at a glance: not looked at again
constexpr int most_calls = 32;    // in one graph

// Calls of one way, one behind the other.
class timed_calls {
public:
    timed_calls(const gemm_call& call, const native_stream& on, int calls) : calls_(calls) {
        const error_context context{"tune_gemm"};
        graph_ = api::create_graph();
        static_cast<void>(api::capture(
            graph_.get(), {}, static_cast<CUstream_st*>(on.handle),
            [&] {
                for (int i = 0; i < calls; ++i) gemm_on_cuda(call, on);
            },
            context));
        exec_ = api::instantiate(graph_.get(), false, context);
    }
    // Microseconds of one call.
    double run(CUstream_st* on, CUevent_st* from, CUevent_st* to, int launches = 1) const {
        // What was before has left its data in the caches, and its clocks.
        for (int i = 0; i < (launches + 1) / 2; ++i) api::launch(exec_.get(), on, {"tune_gemm"});
        api::record(from, on);
        for (int i = 0; i < launches; ++i) api::launch(exec_.get(), on, {"tune_gemm"});
        api::record(to, on);
        api::synchronize(to);
        return 1e3 * static_cast<double>(api::elapsed_milliseconds(from, to)) / (calls_ * launches);
    }

private:
    int calls_;
    api::graph_handle graph_;
    api::graph_exec_handle exec_;
};

class tuner {
public:
    explicit tuner(device& gpu) : gpu_(gpu), policy_(gpu), home_(policy_.next()) {}

    gemm_measurement measure(const gemm_problem& of) {
        if (of.type == gemm_type::bf16) return measure_as<bfloat16>(of);
        if (of.type == gemm_type::f16) return measure_as<half>(of);
        return measure_as<float>(of);
    }

private:
    template <typename T>
    gemm_measurement measure_as(const gemm_problem& of) {
        const auto a = random<T>({of.rows, of.inner}), b = random<T>({of.inner, of.columns});
        auto out = tensor<T>(home_, {of.rows, of.columns}, {"tune_gemm"});
        const storage_ref workspace = home_.workspace(gemm_on_cuda_workspace_bytes());
        const gemm_call call{
            a.device_data(), b.device_data(), nullptr, out.device_data(), workspace->data(), of, activation::none, {}};
        gpu_.synchronize();
        gemm_measurement made = compare(call);
        gpu_.synchronize();
        return made;
    }

    template <typename T>
    tensor<T> random(const shape& of) {
        tensor<float> made = sync(randn(of, 7), policy_);
        if constexpr (std::same_as<T, float>) {
            return made;
        } else {
            return sync(cast<T>(std::move(made)), policy_);
        }
    }

    gemm_measurement compare(gemm_call call) {
        const api::device_scope scope(cuda::device_context::of(gpu_).ordinal());
        const native_stream on = home_.native();
        auto* const native = static_cast<CUstream_st*>(on.handle);
        const auto from = api::create_event(api::event_use::timing), to = api::create_event(api::event_use::timing);
        const auto time = [&](const timed_calls& calls, int launches) {
            return calls.run(native, from.get(), to.get(), launches);
        };
        std::vector<contender> all;
        int calls = 0;
        for (const gemm_way& way : gemm_ways(gpu_, call)) {
            call.way = way;
            gemm_on_cuda(call, on);  // loads what has to be loaded
            if (calls == 0) {
                const double once = time(timed_calls(call, on, 1), 1);
                calls = static_cast<int>(std::clamp<double>(glance_microseconds / once, 1, most_calls));
            }
            all.push_back({way, timed_calls(call, on, calls), {}});
            all.back().times.push_back(time(all.back().calls, 1));
        }
        if (all.empty())
            throw error(errc::unsupported, "there is no way to compute this product", {"tune_gemm", gpu_.name()});
        const double best = std::min_element(all.begin(), all.end(), is_faster)->times.front();
        std::erase_if(
            all, [&](const contender& each) { return each.way != gemm_way{} && each.times.front() > hopeless * best; });
        const double turn = best > is_large_microseconds ? large_turn_microseconds : small_turn_microseconds;
        const int launches = static_cast<int>(std::clamp<double>(turn / (calls * best), 1, 100));
        for (int round = 0; round < rounds; ++round) {
            for (contender& each : all) {
                if (round == 0) each.times.clear();
                each.times.push_back(time(each.calls, launches));
            }
        }
        for (contender& each : all)
            std::nth_element(each.times.begin(), each.times.begin() + rounds / 2, each.times.end());
        return best_of(call.problem, all);
    }

    struct contender {
        gemm_way way;
        timed_calls calls;
        std::vector<double> times;
    };
    static bool is_faster(const contender& x, const contender& y) { return x.times.front() < y.times.front(); }

    static gemm_measurement best_of(const gemm_problem& of, const std::vector<contender>& all) {
        gemm_measurement made{of, {}, std::numeric_limits<double>::infinity(), 0};
        for (const contender& each : all) {
            const double median = each.times[rounds / 2];
            const bool is_library = each.way == gemm_way{};
            if (is_library) made.library_microseconds = median;
            const bool beats_library = made.library_microseconds == 0 || median < worth_it * made.library_microseconds;
            if (!is_library && (median >= made.microseconds || !beats_library)) continue;
            made.fastest = to_string(each.way);
            made.microseconds = median;
        }
        return made;
    }

    device& gpu_;
    single_stream policy_;
    stream& home_;
};

gemm_way way_named(device& gpu, const gemm_measurement& of) {
    gemm_call call{};
    call.problem = of.of;
    for (const gemm_way& each : gemm_ways(gpu, call)) {
        if (to_string(each) == of.fastest) return each;
    }
    return {};
}

}  // namespace

std::vector<gemm_measurement> tune_gemm_on_cuda(device& gpu, std::span<const gemm_problem> problems,
                                                const std::filesystem::path& file,
                                                const std::function<void(const gemm_measurement&)>& done) {
    auto& choices = cuda::device_context::of(gpu).kept<gemm_choices>();
    tuner measures(gpu);
    std::vector<gemm_measurement> made;
    for (const gemm_problem& each : problems) {
        made.push_back(measures.measure(each));
        if (done) done(made.back());
    }
    // What the file knew of other problems stays.
    gemm_table table = usable_gemm_table(file, choices.origin(), [](const std::string&) {});
    for (const gemm_measurement& each : made) {
        std::erase_if(table.entries, [&](const gemm_measurement& old) { return old.of == each.of; });
        table.entries.push_back(each);
        choices.add(each.of, way_named(gpu, each));
    }
    write_gemm_table(file, table);
    return made;
}

}  // namespace sluice::kernels
