//! Sums on the ranks' GPUs, whose bytes NCCL moves: nothing passes through the host. The bits are those of the sum on the host.

use candle_core::{DType, Device, Result, Tensor};
use sconce_ops::device::nccl::Communicator;
use sconce_ops::pieces::{self, Part};

use super::layout::{Layout, Segment};
use super::{NodeNote, SumError};
use crate::gradients::{Gradients, TreeNode};
use crate::team::gpus::{Gpus, failed};
use crate::team::{Purpose, Said, Team};

/// The GPUs of all ranks, and memory for sums, kept from one update to the next.
#[derive(Debug)]
pub(super) struct GpuSums {
    gpus: Gpus,
    singles: GpuBuffers,
    doubles: GpuBuffers,
}

/// Memory on the GPU for sums of gradients of one type; each grows when it is too small.
#[derive(Debug, Default)]
struct GpuBuffers {
    /// As gradients are on their way.
    send: Option<Tensor>,
    receive: Option<Tensor>,
    sum: Option<Tensor>,
    /// What was received in the gradients' own type, where it was in another on its way.
    widened: Option<Tensor>,
}

/// A sum for which this rank is ready: everything is in its place, and there is memory for the rest.
struct Ready<'a> {
    layout: &'a Layout,
    send: Tensor,
    receive: Tensor,
    /// What is added; the same as `receive` where gradients have their own type on their way.
    nodes: Tensor,
    sum: Tensor,
    /// The sums of the layout's segments.
    sums: Vec<Tensor>,
}

impl GpuSums {
    pub(super) fn new(gpus: Gpus) -> GpuSums {
        GpuSums {
            gpus,
            singles: GpuBuffers::default(),
            doubles: GpuBuffers::default(),
        }
    }

    /// The sums of the gradients of layouts of `f32` and of `f64`, where there are any, with the parameters' numbers. `device` has
    /// them all.
    pub(super) fn sum(
        &mut self,
        team: &Team,
        device: &Device,
        (singles, doubles): (Option<&Layout>, Option<&Layout>),
        own: &[(TreeNode, Gradients)],
        all: &[Vec<NodeNote>],
        is_halved: bool,
    ) -> std::result::Result<Vec<(usize, Tensor)>, SumError> {
        let wire = if is_halved { DType::BF16 } else { DType::F32 };
        let mut ready = Vec::new();
        for (buffers, layout, dtype, wire) in [
            (&mut self.singles, singles, DType::F32, wire),
            (&mut self.doubles, doubles, DType::F64, DType::F64),
        ] {
            if let Some(layout) = layout {
                ready.push(buffers.prepare(device, layout, own, (dtype, wire))?);
            }
        }
        // A rank that has no memory left says so here: within NCCL the others would wait for it.
        team.hear(Purpose::Update, Said::default())?;
        self.gpus.during(team, |communicator| {
            for ready in &ready {
                ready.finish(team, communicator, all)?;
            }
            // Here rather than later: where the host waits for the GPU elsewhere, nobody watches for how long.
            let waited = communicator.wait();
            waited.map_err(|error| SumError::from(failed(team, &error)))
        })?;
        let sums = ready.into_iter().flat_map(|Ready { layout, sums, .. }| {
            let parameters = layout.segments.iter().map(|segment| segment.parameter);
            parameters.zip(sums)
        });
        Ok(sums.collect())
    }
}

impl GpuBuffers {
    /// Writes this rank's nodes to what it sends, and gets the memory for the rest.
    fn prepare<'a>(
        &mut self,
        device: &Device,
        layout: &'a Layout,
        own: &[(TreeNode, Gradients)],
        (dtype, wire): (DType, DType),
    ) -> Result<Ready<'a>> {
        let send = at_least(&mut self.send, layout.sent(), wire, device)?;
        let receive = at_least(&mut self.receive, layout.received(), wire, device)?;
        let nodes = if wire == dtype {
            receive.clone()
        } else {
            at_least(&mut self.widened, layout.received(), dtype, device)?
        };
        let sum = at_least(&mut self.sum, layout.length(), wire, device)?;
        let sums = layout.segments.iter().map(|segment| {
            let Segment { shape, .. } = segment;
            pieces::undefined(shape.clone(), dtype, device)
        });
        let sums = sums.collect::<Result<Vec<_>>>()?;
        let mut gradients = Vec::new();
        for (node, (_, of_node)) in own.iter().enumerate() {
            for segment in &layout.segments {
                // Whatever is sent in place of a gradient that is missing is not added.
                if let Some(gradient) = of_node.at(segment.parameter) {
                    gradients.push((segment, node, gradient.contiguous()?));
                }
            }
        }
        let parts = gradients.iter().flat_map(|(segment, node, gradient)| {
            let parts = layout.parts(segment, *node);
            parts.map(|part| Part {
                from: gradient,
                from_at: part.from,
                to: &send,
                to_at: part.to,
                length: part.length,
            })
        });
        pieces::copy(&parts.collect::<Vec<_>>())?;
        Ok(Ready {
            layout,
            send,
            receive,
            nodes,
            sum,
            sums,
        })
    }
}

/// A buffer's memory, enough for this many elements.
fn at_least(
    buffer: &mut Option<Tensor>,
    count: usize,
    dtype: DType,
    device: &Device,
) -> Result<Tensor> {
    if let Some(tensor) = buffer
        && tensor.elem_count() >= count
    {
        return Ok(tensor.clone());
    }
    // The old one is free before a larger one is asked for.
    *buffer = None;
    let tensor = pieces::undefined(count.max(1), dtype, device)?;
    *buffer = Some(tensor.clone());
    Ok(tensor)
}

impl Ready<'_> {
    /// Queues the exchange, the additions of this rank's piece, and the collection of all ranks' sums.
    fn finish(
        &self,
        team: &Team,
        communicator: &Communicator,
        all: &[Vec<NodeNote>],
    ) -> std::result::Result<(), SumError> {
        let layout = self.layout;
        let nccl = |error| SumError::from(failed(team, &error));
        let send = (&self.send, layout.send_at.as_slice());
        let receive = (&self.receive, layout.receive_at.as_slice());
        communicator.exchange(send, receive).map_err(nccl)?;
        if self.nodes.dtype() != self.receive.dtype() {
            pieces::copy(&[Part {
                from: &self.receive,
                from_at: 0,
                to: &self.nodes,
                to_at: 0,
                length: layout.received(),
            }])?;
        }
        pieces::add(&self.nodes, layout.own.len(), &layout.additions(all))?;
        pieces::copy(&[Part {
            from: &self.nodes,
            from_at: 0,
            to: &self.sum,
            to_at: layout.own.start,
            length: layout.own.len(),
        }])?;
        communicator
            .collect(&self.sum, &layout.pieces)
            .map_err(nccl)?;
        let parts = layout.segments.iter().zip(&self.sums);
        let parts = parts.map(|(segment, sum)| Part {
            from: &self.sum,
            from_at: segment.begin,
            to: sum,
            to_at: 0,
            length: segment.end - segment.begin,
        });
        pieces::copy(&parts.collect::<Vec<_>>())?;
        Ok(())
    }
}
