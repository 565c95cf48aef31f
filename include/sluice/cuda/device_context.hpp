// SPDX-License-Identifier: Apache-2.0
// device_context: a GPU for code that calls CUDA's libraries: handles, created at first use and bound to the stream,
// the stream's workspace, the GPU's properties and memory. Only for devices of kind cuda.
//
// Use a handle only inside a library call on its stream; otherwise ordering and memory lifetimes are not guaranteed.
// The libraries (cuBLAS, cuBLASLt, cuDNN) are opened at first use; if one is not installed, the call throws
// errc::unsupported.
//
// Thread safety: all members may be called on any thread; a handle may be used by one thread at a time.
//
// All members take constant time, except when they open a library, create a handle or construct an object, which
// happens once for each device or stream; workspace costs what stream::workspace costs, and free_memory asks the
// driver.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <string_view>
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

    // A cublasLtHandle_t, one per device: each of its calls takes the stream.
    cublasLtContext* cublaslt_handle();
    // A cublasHandle_t and a cudnnHandle_t, one of each per stream, bound to it.
    cublasContext* cublas(stream on);
    cudnnContext* cudnn(stream on);  // a cudnnHandle_t, bound to the stream

    // Scratch memory that only grows; see stream::workspace.
    storage_ref workspace(stream on, std::size_t bytes) { return on.workspace(bytes); }

    // CUDA's number of the device.
    int ordinal() const noexcept { return ordinal_; }
    const device_properties& properties() const noexcept;  // what the GPU is and can do
    memory_info free_memory() const;                       // the memory of the GPU at this moment, in bytes

    // For the library's own kernels: matrix products by cuBLASLt, with their algorithms cached.
    cublaslt& matmul();
    // Convolutions and poolings by cuDNN, where it is installed, with their algorithms cached.
    cudnn_library& convolutions();

    // For the library's own kernels: data that they keep for this GPU, one object per type, constructed from the
    // context at first use.
    template <typename T>
    T& kept() {
        return *static_cast<T*>(
            kept(typeid(T), [](device_context& of) -> std::shared_ptr<void> { return std::make_shared<T>(of); }));
    }

    // Reports to the program's logger that a handle of a library was made for this GPU.
    void log_handle(std::string_view library) const noexcept;

    // Called by the backend.
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
    std::atomic<device*> device_{nullptr};  // whose context this is; known from the first call of of()
};

}  // namespace sluice::cuda
