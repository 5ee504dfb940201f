/* The hook `on-device`: multiplies the gradient of `fc1.weight` by 0.5 where it is. On the CPU that is host memory; on a GPU the
 * driver's own functions copy it from and to the address that the host has lent, in the order of the host's stream. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "sconce.h"

SCONCE_PLUGIN("on-device", "0.1.0", "Works where tensors are.",
              SCONCE_HOOK_ON_DEVICE("on-device", "Halves a gradient where it is.", 50,
                                    SCONCE_AT(BEFORE_RUN, "before_run") "," SCONCE_AT(AFTER_BACKWARD, "after_backward"), "",
                                    SCONCE_JSON({"type": "object", "additionalProperties": false, "properties": {}})));

typedef struct on_device {
  const sconce_c_table *c;
  const sconce_log_table *log;
  const sconce_tensors_table *tensors;
  const sconce_device_table *device;
} on_device;

/* A driver's function, as the host has opened it; the detour is what ISO C needs. */
typedef int (*copy_to_host)(void *host, uint64_t device, size_t bytes, void *stream);
typedef int (*copy_to_device)(uint64_t device, const void *host, size_t bytes, void *stream);
typedef int (*wait)(void *stream);
static void *function(const char *name) {
  void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  return library == NULL ? NULL : dlsym(library, name);
}

static void halve(float *x, size_t length) {
  for (size_t i = 0; i < length; i++) x[i] *= 0.5f;
}

static uint32_t halve_on_gpu(on_device *self, const sconce_tensor *tensor, void *stream, sconce_error *error) {
  copy_to_host read;
  copy_to_device write;
  wait synchronize;
  size_t bytes = (size_t)tensor->byte_length;
  float *memory = (float *)malloc(bytes);
  *(void **)&read = function("cuMemcpyDtoHAsync_v2");
  *(void **)&write = function("cuMemcpyHtoDAsync_v2");
  *(void **)&synchronize = function("cuStreamSynchronize");
  if (memory == NULL || read == NULL || write == NULL || synchronize == NULL) {
    free(memory);
    return sconce_fail(self->c, error, "the driver lacks a function");
  }
  uint64_t address = (uint64_t)(uintptr_t)tensor->data;
  int failed = read(memory, address, bytes, stream) != 0 || synchronize(stream) != 0;
  if (!failed) {
    halve(memory, bytes / sizeof(float));
    failed = write(address, memory, bytes, stream) != 0 || synchronize(stream) != 0;
  }
  free(memory);
  return failed ? sconce_fail(self->c, error, "the driver refuses a copy") : SCONCE_OK;
}

static uint32_t before_run(on_device *self, const sconce_view *view, sconce_error *error) {
  sconce_device device;
  char line[160];
  if (self->device->facts(view->context, &device, error) != SCONCE_OK) return sconce_fail(self->c, error, "no device");
  snprintf(line, sizeof line, "type %d, number %d, `%.*s`, %s", (int)device.device_type, (int)device.device_id,
           (int)device.name.length, device.name.length == 0 ? "" : (const char *)device.name.pointer,
           device.stream == NULL ? "no stream" : "a stream");
  return self->log->log(view->context, SCONCE_INFO, sconce_str(line));
}

static uint32_t after_backward(on_device *self, const sconce_view *view, sconce_error *error) {
  sconce_device device;
  sconce_tensor gradient;
  size_t index;
  uint32_t status = self->tensors->find(view->context, SCONCE_GRADIENTS, sconce_str("fc1.weight"), &index, error);
  if (status == SCONCE_OK) status = self->device->facts(view->context, &device, error);
  if (status == SCONCE_OK)
    status = self->device->tensor(view->context, SCONCE_GRADIENTS, index, 1, &gradient, error);
  if (status != SCONCE_OK) return status;
  if (gradient.device_type != device.device_type || gradient.device_id != device.device_id)
    return sconce_fail(self->c, error, "the gradient is not on the run's device");
  if (gradient.device_type == SCONCE_DEVICE_CUDA) return halve_on_gpu(self, &gradient, device.stream, error);
  halve((float *)gradient.data, (size_t)(gradient.byte_length / sizeof(float)));
  return SCONCE_OK;
}

static uint32_t call(void *instance, uint32_t point, const sconce_view *view, sconce_error *error) {
  on_device *self = (on_device *)instance;
  switch (point) {
    case SCONCE_BEFORE_RUN: return before_run(self, view, error);
    case SCONCE_AFTER_BACKWARD: return after_backward(self, view, error);
    default: return SCONCE_UNSUPPORTED;
  }
}

static uint32_t save_state(void *instance, sconce_bytes *state, sconce_error *error) {
  (void)instance, (void)state, (void)error;
  return SCONCE_OK;
}

static uint32_t load_state(void *instance, const uint8_t *state, size_t length, sconce_error *error) {
  (void)instance, (void)state, (void)length, (void)error;
  return SCONCE_OK;
}

static uint32_t drop(void *instance, sconce_error *error) {
  (void)error;
  free(instance);
  return SCONCE_OK;
}

static const sconce_hook_table TABLE = {call, save_state, load_state, drop};

static uint32_t create(sconce_text kind, sconce_text config, const sconce_setup *setup, sconce_hook *hook,
                       sconce_error *error) {
  const sconce_host *host = setup->host;
  on_device *self = (on_device *)calloc(1, sizeof *self);
  (void)kind, (void)config, (void)error;
  if (self == NULL) return SCONCE_ERROR;
  self->c = (const sconce_c_table *)host->query(sconce_str(SCONCE_C_ID));
  self->log = (const sconce_log_table *)host->query(sconce_str(SCONCE_LOG_ID));
  self->tensors = (const sconce_tensors_table *)host->query(sconce_str(SCONCE_TENSORS_ID));
  self->device = (const sconce_device_table *)host->query(sconce_str(SCONCE_DEVICE_ID));
  if (self->c == NULL || self->log == NULL || self->tensors == NULL || self->device == NULL) {
    free(self);
    return SCONCE_UNSUPPORTED;
  }
  hook->instance = self;
  hook->table = &TABLE;
  return SCONCE_OK;
}

static const sconce_plugin PLUGIN = {SCONCE_ABI_EPOCH, NULL, create, NULL};

const sconce_plugin *sconce_c_plugin_v1(const sconce_host *host) {
  (void)host;
  return &PLUGIN;
}
