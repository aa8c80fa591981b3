"""A folder of traces in tiny, with the columns of the published ones."""

from pathlib import Path

GENERATOR = """\
cohorts:
  - className: cohort
    count: 1
    queuesSets:
    - className: cq
      count: 2
      nominalQuota: 4
      borrowingLimit: 8
      workloadsSets:
      - {count: 6, creationIntervalMs: 100, workloads: [{className: small, runtimeMs: 200, priority: 50, request: 1}]}
      - {count: 2, creationIntervalMs: 500, workloads: [{className: medium, runtimeMs: 500, priority: 100, request: 2}]}
      - {count: 1, creationIntervalMs: 300, workloads: [{className: large, runtimeMs: 400, priority: 200, request: 4}]}
"""

FILES = {
    "kueue-perf/baseline.generator.yaml": GENERATOR,
    "kueue-perf/large-scale.generator.yaml": GENERATOR,
    "openb/openb_node_list_gpu_node.csv": """\
sn,cpu_milli,memory_mib,gpu,model
n1,64000,262144,2,P100
n2,96000,393216,4,T4
""",
    "openb/openb_pod_list_default.csv": """\
name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec
p1,1000,1024,1,1000,
p2,1000,1024,1,500,
p3,1000,1024,2,1000,
""",
    "openb/openb_pod_list_gpuspec33.csv": """\
name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec
p1,1000,1024,1,1000,T4
p2,1000,1024,1,300,P100|T4
p3,1000,1024,0,0,
""",
    "openb/openb_pod_list_multigpu50.csv": """\
name,cpu_milli,memory_mib,num_gpu,gpu_milli
p1,1000,1024,1,1000
p2,1000,1024,2,1000
""",
    "philly/philly_vc_nodes.csv": "vc,node num\na,3\nb,1\n",
    "philly/philly_jobs_pollux_sia.csv": """\
timestamp,duration,num_gpus,gpu_time,cluster
2017-09-30 00:00:00,60.0,1,60.0,a
2017-10-01 00:00:00,3600.0,64,60.0,a
2017-10-01 00:01:00,7200.0,1,60.0,b
2017-10-01 00:02:00,3600.0,16,60.0,b
2017-10-01 00:03:00,60.0,1,60.0,unknown
""",
    "lingjun/lingjun_2023_topo.csv": """\
ip,DSW,PSW,ASW
h1,G,P1,S1
h2,G,P1,S1
h3,G,P1,S2
h4,G,P2,S1
""",
    "kalos/converted_kalos_trace_319.csv": """\
job_id,arrival_time,num_iteration,iteration_computing_time,gpu_workers,gpu_per_worker
0,0.0,100,0.5,2,8.0
1,1.0,100,0.5,1,2.0
""",
}


def write(folder: Path) -> Path:
    """Write all files below a folder and return it."""
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder
