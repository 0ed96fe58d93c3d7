#pragma once

// The vtables of the fake objects, one pair per kind: destructors for the outer object, methods for the
// implementation.

namespace fake_tensorrt::tables {

extern void* const runtime_outer[];
extern void* const* const runtime;
extern void* const engine_outer[];
extern void* const* const engine;
extern void* const context_outer[];
extern void* const* const context;
extern void* const config_outer[];
extern void* const* const config;
extern void* const cache_outer[];
extern void* const* const cache;
extern void* const host_memory_outer[];
extern void* const* const host_memory;

}  // namespace fake_tensorrt::tables
