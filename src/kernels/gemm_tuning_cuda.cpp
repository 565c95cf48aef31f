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
constexpr int rounds = 7;
constexpr double round_microseconds = 400;  // about, for one way
constexpr int most_calls = 32;

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
        exec_ = api::instantiate(graph_.get(), context);
    }
    // Microseconds of one call.
    double run(CUstream_st* on, CUevent_st* from, CUevent_st* to) const {
        api::record(from, on);
        api::launch(exec_.get(), on, {"tune_gemm"});
        api::record(to, on);
        api::synchronize(to);
        return 1e3 * static_cast<double>(api::elapsed_milliseconds(from, to)) / calls_;
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
        const gemm_call call{a.device_data(), b.device_data(), nullptr, out.device_data(), workspace->data(), of,
                             activation::none, {}};
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
        const std::vector<gemm_way> ways = gemm_ways(gpu_, call);
        std::vector<timed_calls> timed;
        int calls = 1;
        for (const gemm_way& way : ways) {
            call.way = way;
            if (timed.empty()) {
                gemm_on_cuda(call, on);  // loads what has to be loaded
                const double once = timed_calls(call, on, 1).run(native, from.get(), to.get());
                calls = static_cast<int>(std::clamp<double>(round_microseconds / once, 2, most_calls));
            }
            timed.emplace_back(call, on, calls);
        }
        std::vector<std::vector<double>> times(ways.size());
        for (int round = -1; round < rounds; ++round) {  // the first warms up
            for (std::size_t i = 0; i < timed.size(); ++i) {
                const double time = timed[i].run(native, from.get(), to.get());
                if (round >= 0) times[i].push_back(time);
            }
        }
        return best_of(call.problem, ways, times);
    }

    static gemm_measurement best_of(const gemm_problem& of, const std::vector<gemm_way>& ways,
                                    std::vector<std::vector<double>>& times) {
        gemm_measurement made{of, {}, std::numeric_limits<double>::infinity(), 0};
        for (std::size_t i = 0; i < ways.size(); ++i) {
            const auto middle = times[i].begin() + rounds / 2;
            std::nth_element(times[i].begin(), middle, times[i].end());
            if (ways[i] == gemm_way{}) made.library_microseconds = *middle;
            if (*middle >= made.microseconds * (made.microseconds == made.library_microseconds ? worth_it : 1)) continue;
            made.fastest = to_string(ways[i]);
            made.microseconds = *middle;
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
