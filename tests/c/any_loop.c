/* A training loop in C with Sconce's hooks: a weight that goes towards 1, by the address of a library's tensors. */
#include "sconce_host.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static uint8_t kept[1 << 16];
static size_t kept_length;

static void must(sconce_host_result result, const char *what) {
  if (result < 0) {
    fprintf(stderr, "%s: %s\n", what, sconce_host_message());
    fflush(stderr);
    _Exit(1);
  }
}

static int32_t save(void *user, const char *tag, const uint8_t *states, size_t length, char *reason, size_t room) {
  (void)user;
  if (length > sizeof kept) {
    snprintf(reason, room, "`%s` is too large", tag);
    return 1;
  }
  memcpy(kept, states, length);
  kept_length = length;
  printf("saved %s\n", tag);
  return 0;
}

static void told(void *user, int32_t level, const char *source, const char *message) {
  (void)user;
  printf("%d %s: %s\n", level, source, message);
}

static float numbers[3] = {9.0f, 0.0f, 0.5f};
static float *const weights = numbers + 1;
static const int64_t shape[1] = {2};

/* As dlpack.h has it. */
struct DLTensor {
  void *data;
  struct { int32_t device_type, device_id; } device;
  int32_t ndim;
  struct { uint8_t code, bits; uint16_t lanes; } dtype;
  int64_t *shape, *strides;
  uint64_t byte_offset;
};

/* The weights as DLPack's tensor, a number after where its memory begins. */
static struct DLTensor dlpack(void) {
  struct DLTensor made = {.data = numbers, .device = {1, 0}, .ndim = 1, .dtype = {2, 32, 1}, .shape = (int64_t *)shape, .byte_offset = sizeof *weights};
  return made;
}

static sconce_host *start(const char *hooks, const char *directory, const uint8_t *states, size_t length) {
  struct DLTensor from = dlpack();
  sconce_host_tensor weight = {.size = sizeof weight};
  must(sconce_host_tensor_of_dlpack(&weight, "weight", &from), "tensor_of_dlpack");
  sconce_host_loop loop = {.size = sizeof loop, .save = save, .log = told};
  sconce_host_options options = {
      .size = sizeof options,
      .hooks = hooks,
      .path = "hooks.json",
      .description = "{\"plan\": {\"epochs\": 2, \"batches\": 3, \"groups\": [{\"name\": \"default\", \"learning_rate\": 0.25}]}}",
      .directory = directory,
      .parameters = &weight,
      .parameter_count = 1,
      .loop = &loop,
      .states = states,
      .states_length = length,
  };
  return sconce_host_start(&options);
}

int main(int count, char **arguments) {
  if (count < 3) return 2;
  if (sconce_host_version() != SCONCE_HOST_VERSION) return 3;
  sconce_host *refused = start("{\"hooks\": [\"no-such-hook\"]}", arguments[2], NULL, 0);
  printf("refused: %d\n", refused == NULL && strstr(sconce_host_message(), "no-such-hook") != NULL);
  struct DLTensor far = dlpack();
  far.device.device_type = 2;
  sconce_host_tensor none = {.size = sizeof none};
  sconce_host_result there = sconce_host_tensor_of_dlpack(&none, "weight", &far);
  printf("on a device: %d\n", there == -1 && strstr(sconce_host_message(), "main memory") == NULL && strstr(sconce_host_message(), "device 2:0") != NULL);
  sconce_host *host = start(arguments[1], arguments[2], NULL, 0);
  if (!host) must(-1, "start");
  for (int epoch = 0; epoch < 2; epoch++) {
    must(sconce_host_begin_epoch(host, 3), "begin_epoch");
    for (int batch = 0; batch < 3; batch++) {
      float gradient[2];
      void *gradients[1] = {gradient};
      if (sconce_host_begin_batch(host, 4, -1) == 0) {
        double loss = 0, factor = 1;
        must(sconce_host_after_forward(host), "after_forward");
        for (int i = 0; i < 2; i++) {
          gradient[i] = 2 * (weights[i] - 1);
          loss += (weights[i] - 1) * (weights[i] - 1);
        }
        must(sconce_host_after_loss(host, loss, &factor), "after_loss");
        must(sconce_host_after_backward(host, gradients, 1), "after_backward");
        int skipped = sconce_host_before_update(host, gradients, 1);
        must(skipped, "before_update");
        if (!skipped) {
          double rate = sconce_host_learning_rate(host, NULL);
          for (int i = 0; i < 2; i++) weights[i] -= (float)(rate * gradient[i]);
          must(sconce_host_after_update(host), "after_update");
        }
        printf("norm %.4f\n", sqrt(gradient[0] * gradient[0] + gradient[1] * gradient[1]));
      }
      must(sconce_host_end_batch(host), "end_batch");
    }
    must(sconce_host_end_epoch(host, -1), "end_epoch");
  }
  sconce_host_result wrong = sconce_host_after_loss(host, 1.0, NULL);
  printf("out of order: %d\n", wrong == -1 && strstr(sconce_host_message(), "after_loss") != NULL);
  const uint8_t *states;
  size_t length;
  must(sconce_host_states(host, &states, &length), "states");
  save(NULL, "own", states, length, NULL, 0);
  must(sconce_host_saved(host, "own", NULL), "saved");
  must(sconce_host_finish(host), "finish");
  kept[kept_length - 1] ^= 1;
  refused = start(arguments[1], arguments[2], kept, kept_length);
  printf("damaged: %d\n", refused == NULL && strstr(sconce_host_message(), "damaged") != NULL);
  return 0;
}
