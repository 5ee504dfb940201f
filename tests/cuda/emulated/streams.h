// Streams and events: queues of work, and places in them.
//
// Work is run as late as the driver may: when a call has to wait for it. What uses a result too early, or changes memory that is still to
// be read, then fails here as it might on a GPU.
#pragma once

#include "device.h"

#include <deque>
#include <functional>
#include <memory>
#include <vector>

namespace emulated {

// Runs one piece of work; the reason why it failed, or nothing.
using Work = std::function<std::string()>;

struct Stream;

// A place in a stream. Each record makes a new one: who waits for the old one still does.
struct Place {
    Stream *stream = nullptr;
    bool is_reached = false;
    double at = 0; // when, in milliseconds
};

struct Event {
    std::shared_ptr<Place> place; // none before the first record
};

struct Stream {
    int device = 0;
    bool is_blocking = true; // waits for the default stream, and it for this
    std::deque<Work> queue;
};

// What a handle stands for: the default streams' handles are small numbers.
Stream *stream_of(void *handle);
void *new_stream(int device, bool is_blocking);
void delete_stream(void *handle);

// Queues work in a stream, or runs it if `SCONCE_CUDA_EAGER` is set.
Result enqueue(Stream *stream, const char *name, Work work);
// Runs the work of a stream, up to a place in it if one is given.
Result drain(Stream *stream, const Place *until = nullptr);
Result drain_all();
Result record(Event &event, Stream *stream);
Result wait(Stream *stream, const Event &event);

// The device whose context is current on this thread.
int current_device();

} // namespace emulated

// For the other libraries, which have handles of streams only: puts work that accesses device memory into a stream.
extern "C" int sconce_emulated_enqueue(void *stream, const char *name, void (*work)(void *), void *argument);
extern "C" bool sconce_emulated_is_device_memory(Address address, std::size_t bytes);
