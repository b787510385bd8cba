"""What is trained: workloads, their models, tasks and quality metrics, and the FLOPs they cost."""
