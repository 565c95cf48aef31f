// SPDX-License-Identifier: Apache-2.0
#include "nn/operators/recurrent_activation.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <string>

namespace sluice::nn::operators {
namespace {

struct recurrent_curve_name {
    std::string_view name;  // in lower case
    recurrent_curve what;
    std::optional<float> alpha, beta;  // what they are if they are not given
    bool takes_alpha = false, takes_beta = false;
};

constexpr std::array<recurrent_curve_name, 11> recurrent_curves = {{
    {"relu", recurrent_curve::relu, {}, {}},
    {"tanh", recurrent_curve::tanh, {}, {}},
    {"sigmoid", recurrent_curve::sigmoid, {}, {}},
    {"affine", recurrent_curve::affine, 1.0f, 0.0f, true, true},
    {"leakyrelu", recurrent_curve::leaky_relu, 0.01f, {}, true},
    {"thresholdedrelu", recurrent_curve::thresholded_relu, 1.0f, {}, true},
    {"scaledtanh", recurrent_curve::scaled_tanh, {}, {}, true, true},
    {"hardsigmoid", recurrent_curve::hard_sigmoid, 0.2f, 0.5f, true, true},
    {"elu", recurrent_curve::elu, 1.0f, {}, true},
    {"softsign", recurrent_curve::softsign, {}, {}},
    {"softplus", recurrent_curve::softplus, {}, {}},
}};

// The numbers of an attribute for the activations that take one, in order. The attribute has one for each of these, or
// one for each activation.
class recurrent_parameters {
public:
    recurrent_parameters(const node_call& in, std::string_view name, std::size_t takers, std::size_t activations)
        : in_(in), name_(name), given_(in.real_list(name)), has_all_(given_.size() > takers) {
        if (has_all_ && given_.size() != activations) {
            in.refuse("has " + std::to_string(given_.size()) + " numbers in " + std::string(name) + " for " +
                      std::to_string(activations) + " activations, of which " + std::to_string(takers) + " take one");
        }
    }
    // What the next activation gets.
    float next(bool takes, std::optional<float> otherwise) {
        if (!takes) {
            if (has_all_) ++at_;
            return 0;
        }
        if (at_ < given_.size()) return given_[at_++];
        if (!otherwise) in_.refuse("has too few numbers in " + std::string(name_));
        return *otherwise;
    }

private:
    const node_call& in_;
    std::string_view name_;
    std::vector<float> given_;
    bool has_all_;
    std::size_t at_ = 0;
};

}  // namespace

std::vector<recurrent_activation> recurrent_activations(const node_call& in, std::size_t directions,
                                                        std::span<const std::string_view> usual) {
    std::vector<std::string> names = in.text_list("activations");
    if (names.empty()) {
        for (std::size_t d = 0; d < directions; ++d) names.insert(names.end(), usual.begin(), usual.end());
    }
    const std::size_t count = usual.size() * directions;
    if (names.size() != count)
        in.refuse("has " + std::to_string(names.size()) + " activations; it takes " + std::to_string(count));
    std::vector<const recurrent_curve_name*> curves;
    std::size_t with_alpha = 0, with_beta = 0;
    for (const std::string& name : names) {
        std::string small;
        for (const char c : name) small += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
        const auto found = std::ranges::find(recurrent_curves, small, &recurrent_curve_name::name);
        if (found == recurrent_curves.end()) in.refuse_unsupported("has the activation '" + name + "'");
        curves.push_back(&*found);
        with_alpha += found->takes_alpha;
        with_beta += found->takes_beta;
    }
    recurrent_parameters alphas(in, "activation_alpha", with_alpha, count),
        betas(in, "activation_beta", with_beta, count);
    const float clip = in.real("clip", 0);
    if (in.has("clip") && !(clip > 0)) in.refuse("has a clip that is not above 0");
    std::vector<recurrent_activation> made;
    for (const recurrent_curve_name* const each : curves) {
        made.push_back(
            {each->what, alphas.next(each->takes_alpha, each->alpha), betas.next(each->takes_beta, each->beta), clip});
    }
    return made;
}

}  // namespace sluice::nn::operators
