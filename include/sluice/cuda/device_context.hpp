// What a GPU offers to code that calls CUDA's libraries: handles, made when first asked for and bound to the
// stream, its workspace, its properties and memory. Only for devices of kind cuda.
//
// Use a handle only inside a library call on its stream, so that ordering and memory stay right. The
// libraries (cuBLAS, cuBLASLt, cuDNN) are opened on first use; when one is not installed, that throws
// errc::unsupported.
//
// Thread safety: all members may be called on any thread; a handle is used by one thread at a time.
#pragma once

#include <cstddef>
#include <memory>
#include <typeindex>

#include "sluice/runtime/device.hpp"
#include "sluice/runtime/stream.hpp"

struct cublasContext;
struct cublasLtContext;
struct cudnnContext;

namespace sluice::cuda {

class cublaslt;
class cudnn_library;

class device_context {
public:
    // Throws errc::invalid_argument when the device is not a GPU.
    static device_context& of(device& gpu);

    // A cublasLtHandle_t: one for the device, it takes the stream with each call.
    cublasLtContext* cublaslt_handle();
    // A cublasHandle_t and a cudnnHandle_t, bound to the stream; one each for a stream.
    cublasContext* cublas(stream& on);
    cudnnContext* cudnn(stream& on);

    // See stream::workspace: scratch memory that only grows.
    storage_ref workspace(stream& on, std::size_t bytes) { return on.workspace(bytes); }

    // CUDA's number of the device.
    int ordinal() const noexcept { return ordinal_; }
    const device_properties& properties() const noexcept;
    memory_info free_memory() const;

    // For the library's own kernels: matrix products by cuBLASLt, with their algorithms cached.
    cublaslt& matmul();
    // Convolutions and poolings by cuDNN, where it is there, with their algorithms cached.
    cudnn_library& convolutions();

    // Likewise: what kernels keep for this GPU, one of each type, made from the context when first asked for.
    template <typename T>
    T& kept() {
        return *static_cast<T*>(
            kept(typeid(T), [](device_context& of) -> std::shared_ptr<void> { return std::make_shared<T>(of); }));
    }

    // Made by the backend.
    explicit device_context(int ordinal, const device_properties& properties);
    device_context(const device_context&) = delete;  // it owns handles
    device_context& operator=(const device_context&) = delete;
    ~device_context();

private:
    void* kept(std::type_index what, std::shared_ptr<void> (*make)(device_context& of));

    struct handles;
    const int ordinal_;
    const device_properties& properties_;
    std::unique_ptr<handles> handles_;
};

}  // namespace sluice::cuda
